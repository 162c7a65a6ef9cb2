import { type Endpoint, endpointAddress, withOtherFirst } from '../endpoint/endpoint.js';
import { parseServiceHost } from '../resolver/cluster-domain.js';
import { modeMeaning } from '../resolver/discovery-advice.js';
import { isSlots } from '../resolver/dns-mode.js';
import { portsInWords, type ServiceFacts, type ServicePort } from '../resolver/kubernetes/slices/service-ports.js';
import { serviceAccountIn, sliceReaderManifest } from '../resolver/rbac.js';
import { noPod } from '../resolver/target.js';
import type { Target } from '../resolver/target-grammar.js';
import { topologyFromEnv } from '../runtime/topology.js';
import { conditionsInWords, usable } from './endpoints.js';
import { unanswered } from './probe-dns.js';
import {
  type ApiFacts,
  type Diagnosis,
  type DnsAnswerFacts,
  type Facts,
  type Line,
  noToken,
  type Outcome,
  type Permission,
} from './report.js';

/** The sections of a report. */
type Section = 'api' | 'dns' | 'use' | 'connections' | 'process';

/** One thing that `evenkeel doctor` says about the facts. */
interface Finding {
  readonly where: Section;
  readonly mark: Line['mark'];
  /** The line in the report; absent = the finding counts for the verdict only. */
  readonly text?: string;
  /** What the finding makes of the target as a whole; then `summary` says it in a sentence. */
  readonly outcome?: Outcome;
  readonly summary?: string;
  /** What to change. */
  readonly todo?: string | undefined;
  /** Everything else that can be changed follows from this, so it alone is said. */
  readonly isCause?: true;
}

type Check = (facts: Facts, target: Target) => Finding | readonly Finding[] | undefined;

/**
 * Everything that can be found, in order of weight: the first outcome is the verdict, and what to change is listed in this order. Within a
 * section, lines are in this order, too.
 */
const checks: readonly Check[] = [
  serviceSelectsNothing,
  namespaceIsMissing,
  externalNameIsWrong,
  portIsNotTcp,
  howItIsFound,
  addressFamilies,
  endpointsFound,
  warningsOfTheLibrary,
  connectionsOpened,
  tlsSpoken,
  http2Spoken,
  apiServer,
  serviceObject,
  endpointSlices,
  portOfTheService,
  topologyHints,
  clusterIPInPlaceOfService,
  betterWay,
  dnsAnswers,
  clientsOfTheApp,
  allIsWell,
];

/** Interprets what `evenkeel doctor` has found out. A pure function. */
export function diagnose(target: Target, facts: Facts): Diagnosis {
  const findings = checks.flatMap((check) => check(facts, target) ?? []);
  const first = findings.find(({ outcome }) => outcome !== undefined);
  const cause = findings.find(({ isCause }) => isCause);
  // For an ExternalName Service whose name leads somewhere, neither the API server nor DNS has to change.
  const isElsewhere = throughExternalName(facts) !== undefined;
  const helps = (finding: Finding): boolean =>
    finding.where === 'process' ||
    (cause === undefined
      ? !isElsewhere || finding.where === 'use' || finding.where === 'connections'
      : finding === cause);
  const todo = findings.filter(helps).flatMap((finding) => finding.todo ?? []);
  const lines = (section: Section): readonly Line[] =>
    findings.flatMap(({ where, mark, text }) => (where === section && text !== undefined ? { mark, text } : []));
  return {
    outcome: first?.outcome ?? 'fine',
    summary: first?.summary ?? '',
    api: lines('api'),
    dns: lines('dns'),
    use: lines('use'),
    connections: lines('connections'),
    process: lines('process'),
    todo,
  };
}

/** A line of the report, and what else it means. */
const say =
  (where: Section) =>
  (mark: Line['mark'], text: string, rest?: Pick<Finding, 'outcome' | 'summary' | 'todo'>): Finding => ({
    where,
    mark,
    text,
    ...rest,
  });
const api = say('api');
const dns = say('dns');
const use = say('use');
const connections = say('connections');
const app = say('process');

/** What the target as a whole is, without a line of its own. */
function verdict(outcome: Outcome, summary: string, todo?: string): Finding {
  return { where: 'use', mark: 'note', outcome, summary, todo };
}

function cause(summary: string, todo: string): Finding {
  return { ...verdict('unusable', summary, todo), isCause: true };
}

/** The mark of a way to find endpoints that does not work. It is a failure if the target allows no other way, otherwise a warning. */
const problem = ({ kind }: Target): 'warn' | 'fail' => (kind === 'plain' ? 'warn' : 'fail');

/** The largest number of endpoints, zones or nodes that are listed one by one. */
const MAX_LISTED = 20;

/** An address of the Service itself says nothing about the pods behind it, so this holds even if there are endpoints. */
function serviceSelectsNothing({ api: known, connections: tried }: Facts): Finding | undefined {
  const { object, slices, namespace, service } = known ?? {};
  if (!object || object.type === 'ExternalName' || object.hasSelector || slices?.count !== 0) return undefined;
  if (tried.some(({ error }) => error === undefined)) return undefined;
  return cause(
    'the Service selects no pods, and nobody has written EndpointSlices for it',
    `Give Service ${namespace}/${service} a selector, or write EndpointSlices with the label ` +
      `kubernetes.io/service-name: ${service}`,
  );
}

function namespaceIsMissing(facts: Facts, { kind }: Target): Finding | undefined {
  const { api: known, namespace } = facts;
  if (kind === 'static' || isUsable(facts)) return undefined;
  if (namespace?.state !== 'missing' || known?.object || (known?.slices?.count ?? 0) > 0) return undefined;
  return cause(`DNS knows no namespace ${namespace.name}`, 'Check the namespace: kubectl get namespaces');
}

function externalNameIsWrong(facts: Facts, target: Target): Finding | undefined {
  const name = externalNameOf(facts);
  const { api: known, dns: answers } = facts;
  const subject = known ?? parseServiceHost(answers?.name ?? '');
  if (target.kind === 'static' || isUsable(facts) || name === undefined || subject === undefined) return undefined;
  const service = `${subject.service}.${subject.namespace}`;
  if (target.kind === 'kubernetes') {
    const summary = `${service} is an ExternalName Service, which has no EndpointSlices`;
    return cause(summary, `Use the target dns:${service}:${target.port}`);
  }
  if (answers === undefined || unanswered(answers.a) || unanswered(answers.aaaa)) return undefined;
  if (answers.a.records + answers.aaaa.records === 0) {
    return cause(
      `${service} stands for ${name}, and DNS has no address for that`,
      `Correct spec.externalName: kubectl edit service ${subject.service} -n ${subject.namespace}`,
    );
  }
  if (typeof target.port === 'number') return undefined;
  return cause(
    `${service} stands for ${name}, which has no port named ${JSON.stringify(target.port)} in DNS`,
    `Give the port as a number: DNS has no ports by name for ${name}`,
  );
}

function portIsNotTcp(facts: Facts, target: Target): Finding | undefined {
  if (target.kind === 'static' || isUsable(facts)) return undefined;
  const ports = facts.api?.object?.ports ?? [];
  const meant = portsMeant(target.port, ports);
  const [other] = meant;
  if (other === undefined || meant.some(isTcp)) return undefined;
  const tcp = ports.filter(isTcp);
  return cause(
    `port ${JSON.stringify(target.port)} of the Service is ${other.protocol}; evenkeel balances TCP`,
    tcp.length > 0
      ? `Use a TCP port of the Service: ${portsInWords(tcp)}`
      : `Give the Service a TCP port: it has ${portsInWords(ports)}`,
  );
}

/** Says how the endpoints are found by the library, which works here as in an application. */
function howItIsFound(facts: Facts): Finding | undefined {
  const { mode, endpoints } = facts.use;
  const external = externalNameOf(facts);
  // The lines of the API server say why: a permission is missing there.
  const isLate = facts.api?.list.state === 'allowed' && facts.api.watch.state !== 'allowed';
  if (mode === 'slices' && isLate) return use('warn', 'its EndpointSlices are listed from time to time, not watched');
  if (mode === 'slices') return use('ok', 'its EndpointSlices are watched');
  if (!endpoints?.length) return undefined;
  if (external !== undefined) return use('note', `DNS is queried repeatedly for ${external}`);
  return mode === 'dns' || mode === 'name' ? use('note', modeMeaning[mode]) : undefined;
}

/** Says which addresses are dialed, if that is not obvious: a Service has both IP families, or one that this host does not have. */
function addressFamilies({ api: known, dns: answers, use: { mode }, hostFamilies }: Facts): Finding | undefined {
  const slices = mode === 'dns' || mode === 'name' ? undefined : known?.slices?.families;
  const ofDns = [...(answers?.a.records ? ['IPv4'] : []), ...(answers?.aaaa.records ? ['IPv6'] : [])];
  const [first, second] = slices?.length ? slices : ofDns;
  if (first === undefined) return undefined;
  const [host, otherOfHost] = hostFamilies;
  const isHostOfOne = host !== undefined && otherOfHost === undefined;
  if (second === undefined) {
    if (!isHostOfOne || first === host) return undefined;
    return use('warn', `all addresses are ${first}, and this host has ${host} alone`);
  }
  if (isHostOfOne) return use('note', `of both IP families ${host} is used: this host has no other`);
  const why = host === undefined ? 'this host has only loopback' : 'this host has both';
  if (slices === undefined) return use('note', `of both IP families IPv4 is used: ${why}`);
  return use('note', `a pod is one endpoint with two addresses, and IPv4 is tried first: ${why}`);
}

function endpointsFound(facts: Facts, target: Target): readonly Finding[] {
  const { endpoints, errors } = facts.use;
  if (endpoints === undefined) {
    const texts = errors.length > 0 ? errors : ['nothing answered in time'];
    return [
      verdict('unusable', whyNothing(facts), nameToCheck(facts, target)),
      ...texts.map((text) => use('fail', text)),
    ];
  }
  const why = isUsable(facts) ? [] : [verdict('unusable', whyEmpty(facts), nameToCheck(facts, target))];
  const [first] = endpoints;
  if (first === undefined) return [...why, use('fail', 'no endpoint')];
  if (isSlots(endpoints)) {
    const over = `over ${endpoints.length} connections that are replaced in turn`;
    return [...why, use('note', `${first.address}:${first.port}, ${over}`)];
  }
  const more = endpoints.length - MAX_LISTED;
  return [
    ...why,
    ...endpoints.slice(0, MAX_LISTED).map(endpointFound),
    ...(more > 0 ? [use('note', `and ${more} more`)] : []),
  ];
}

function endpointFound(endpoint: Endpoint): Finding {
  const { name, zone, conditions } = endpoint;
  const also = endpoint.otherAddress && `also ${endpointAddress(withOtherFirst(endpoint))}`;
  const words = [name, zone && `zone ${zone}`, also, conditionsInWords(endpoint)].filter(Boolean).join(', ');
  return use(conditions.ready ? 'ok' : 'note', `${endpointAddress(endpoint)}  ${words}`);
}

function whyNothing({ api: known, dns: answers, use: { errors } }: Facts): string {
  const [noApi, noDns] = [known?.list.state === 'failed', answers !== undefined && unanswered(answers.a)];
  if (noApi && noDns) return 'neither the API server nor a name server answers';
  if (known?.list.state === 'forbidden' && answers === undefined) {
    return 'the API server does not let us list EndpointSlices';
  }
  return errors.at(-1) ?? 'nothing answered in time';
}

function whyEmpty({ api: known, use: { endpoints = [] } }: Facts): string {
  if (endpoints.length > 0) return `none of its ${endpoints.length} pods is ready`;
  if (known?.object === null) return `there is no Service ${known.service} in the namespace ${known.namespace}`;
  const slices = known?.slices;
  if (slices === undefined || slices.count === 0) return 'nothing with that name was found';
  const pods = podsOf(slices);
  if (pods === 0) return 'the Service has no pods';
  return slices.ready === 0 ? `none of its ${pods} pods is ready` : 'none of its pods has that port';
}

/** What to check if neither DNS nor the API server knows the Service, but neither can say for sure that it does not exist. */
function nameToCheck({ api: known, dns: answers, use: { endpoints } }: Facts, { kind }: Target): string | undefined {
  const namespace = known?.namespace ?? parseServiceHost(answers?.name ?? '')?.namespace;
  if (endpoints?.length || namespace === undefined || known?.object !== undefined || kind === 'static') {
    return undefined;
  }
  const isUnseen = known?.slices === undefined || known.slices.count === 0;
  const isUnresolved = answers === undefined ? known?.slices !== undefined : answers.a.error === 'ENOTFOUND';
  return isUnseen && isUnresolved ? checkName(namespace) : undefined;
}

const checkName = (namespace: string | undefined): string => `Check the name: kubectl get services -n ${namespace}`;

function warningsOfTheLibrary({ use: { warnings } }: Facts): readonly Finding[] {
  return warnings.map((text) => use('warn', text));
}

function connectionsOpened(facts: Facts, target: Target): readonly Finding[] {
  const { connections: tried } = facts;
  const lines = tried.map(({ endpoint, tookMs, error }) =>
    error === undefined
      ? connections('ok', `${endpoint} accepts connections (${tookMs} ms)`)
      : connections('fail', `${endpoint}: ${error}`),
  );
  const refusing = tried.filter(({ error }) => error !== undefined).length;
  if (refusing === 0) return lines;
  const todo = whatRefuses(facts, target);
  const found =
    refusing === tried.length
      ? verdict('unusable', 'endpoints were found, but none of them accepts a connection', todo)
      : verdict('degraded', `${refusing} of ${tried.length} endpoints accept no connection`, todo);
  return [found, ...lines];
}

function whatRefuses(facts: Facts, target: Target): string {
  const external = throughExternalName(facts);
  if (external !== undefined) {
    return `Check whether ${external} listens on that port, and whether a network policy lets this pod out.`;
  }
  const port = target.kind === 'static' || target.kind === 'kubernetes' ? undefined : target.port;
  if (facts.dns?.kind === 'pods' && typeof port === 'number' && facts.use.mode !== 'slices') {
    return `DNS does not know the pods' ports, so ${port} was tried on them: name the port, or use the pods' own number.`;
  }
  return 'Check whether the pods listen on that port, and whether a network policy lets this pod reach them.';
}

/** Says which endpoints of an https URL do not speak TLS. */
function tlsSpoken({ connections: tried }: Facts): readonly Finding[] {
  const plain = tried.flatMap(({ endpoint, tls }) =>
    tls?.refusal === undefined ? [] : { endpoint, why: tls.refusal },
  );
  if (plain.length === 0) return [];
  const lines = plain.map(({ endpoint, why }) => connections('fail', `${endpoint} does not speak TLS: ${why}`));
  const todo = 'Use an http URL, or the port on which the pods speak TLS.';
  const found =
    plain.length === tried.filter(({ tls }) => tls !== undefined).length
      ? verdict('unusable', 'the target is an https URL, but no endpoint speaks TLS', todo)
      : verdict('degraded', `${plain.length} of ${tried.length} endpoints do not speak TLS`, todo);
  return [found, ...lines];
}

/** Says what HTTP/2 means for clients that evenkeel does not balance. */
function http2Spoken({ http2 }: Facts): Finding | undefined {
  if (http2 === undefined) return undefined;
  const { endpoint, node, isOffered } = http2;
  const who = isOffered ? `so does fetch of this Node (${node})` : 'from Node 26 on so does fetch';
  return connections('note', `${endpoint} speaks HTTP/2, and ${who}: without evenkeel it stays with one pod`);
}

function apiServer(facts: Facts, target: Target): readonly Finding[] {
  const { api: known } = facts;
  if (known === undefined) return [];
  const { server, reason, list, watch, getService } = known;
  if (list.state === 'not-asked') {
    const mark = target.kind === 'plain' ? 'note' : 'fail';
    return [api(mark, `not asked: ${reason}`, { todo: howToAsk(reason) })];
  }
  if (list.state === 'failed') {
    const text = `API server ${server}: ${list.message}`;
    return [api(problem(target), text, { todo: whatFails(known) })];
  }
  const late = throughExternalName(facts) === undefined ? whyLate(known) : undefined;
  const todo = [list, watch].some(({ state }) => state === 'forbidden') ? manifest(known) : undefined;
  return [
    api('ok', `API server ${server} answers`, { todo }),
    verb(target, 'list endpointslices', list),
    {
      ...verb(target, 'watch endpointslices', watch),
      ...(late !== undefined && { outcome: 'degraded', summary: `changes are noticed late: ${late}` }),
    },
    getService.state === 'forbidden'
      ? api('note', "get services: not allowed; a port number's meaning and the Service's rules are unknown")
      : verb(target, 'get services', getService),
  ];
}

function verb(target: Target, what: string, { state, message }: Permission): Finding {
  if (state === 'allowed') return api('ok', `${what}: allowed`);
  if (state === 'not-asked') return api('note', `${what}: not asked`);
  return api(problem(target), `${what}: ${state === 'forbidden' ? 'not allowed' : 'failed'}: ${message}`);
}

function whyLate({ list, watch }: ApiFacts): string | undefined {
  if (watch.state === 'failed') return 'EndpointSlices cannot be watched';
  if (watch.state !== 'forbidden' || list.state !== 'allowed') return undefined;
  return 'EndpointSlices may be listed but not watched';
}

function manifest({ namespace = 'default', list, watch }: ApiFacts): string {
  const account = serviceAccountIn(`${list.message ?? ''} ${watch.message ?? ''}`) ?? { namespace, name: 'default' };
  const text = sliceReaderManifest(namespace, account);
  return `Let ${account.namespace}/${account.name} watch EndpointSlices: kubectl apply -f - <<'EOF'\n${text}EOF`;
}

function howToAsk(reason: string | undefined): string {
  if (reason === noPod) {
    return 'Run this where the application runs, in a pod with a service account, or name an API server or kubeconfig.';
  }
  if (reason === noToken) {
    return 'Let this pod have the token of its service account (automountServiceAccountToken: true), or name an API server or kubeconfig.';
  }
  return `Fix this: ${reason}`;
}

/** What to look at when the API server does not list anything, by how it failed. */
function whatFails({ server, list: { message = '', isUnauthorized } }: ApiFacts): string {
  if (isUnauthorized) {
    return `Check the token: ${server} does not know it. It may have expired, or be for another cluster.`;
  }
  if (/certificate/i.test(message)) {
    return `Check the certificate authority: it did not sign the certificate of ${server}, or that names another server.`;
  }
  return `Find out why ${server} cannot be reached from here: a network policy, a proxy, or the API server itself.`;
}

function serviceObject({ api: known }: Facts, target: Target): readonly Finding[] {
  if (known?.object === undefined) return [];
  const { object, namespace, service } = known;
  if (object === null) {
    const text = `no Service ${service} in the namespace ${namespace}`;
    return [api(problem(target), text, { todo: checkName(namespace) })];
  }
  const { type, headless, clusterIP, externalName, ports } = object;
  if (type === 'ExternalName')
    return [api('ok', `Service: ExternalName, stands for ${externalName}`), ...rules(object)];
  const kind = headless ? 'headless' : `${type}${clusterIP === undefined ? '' : `, cluster IP ${clusterIP}`}`;
  return [api('ok', `Service: ${kind}; ports: ${portsInWords(ports)}`), ...rules(object)];
}

/** Describes what the Service says about who may call which pod, and whether that is followed here. */
function rules({ headless, internalTrafficPolicy, sessionAffinity, trafficDistribution }: ServiceFacts): Finding[] {
  const { zone, nodeName } = topologyFromEnv();
  const lines: Finding[] = [];
  if (internalTrafficPolicy === 'Local' && !headless) {
    const rule = 'internalTrafficPolicy: Local';
    lines.push(
      nodeName === undefined
        ? api('warn', `${rule}: NODE_NAME is not set here, so kube-proxy chooses the pod`)
        : api('note', `${rule}: only pods of the node ${nodeName} are used`),
    );
  }
  if (sessionAffinity === 'ClientIP' && !headless) {
    lines.push(api('note', 'sessionAffinity: ClientIP: this host stays with one pod while that is usable'));
  }
  if (trafficDistribution !== undefined) {
    const isFollowed = (zone ?? nodeName) !== undefined;
    const how = isFollowed ? 'hints are followed' : 'not followed: TOPOLOGY_ZONE and NODE_NAME are not set here';
    lines.push(api('note', `trafficDistribution: ${trafficDistribution}: ${how}`));
  }
  return lines;
}

function endpointSlices({ api: known }: Facts, target: Target): Finding | undefined {
  if (known?.slices === undefined) return undefined;
  const { slices, object, namespace, service } = known;
  const { count, families, ready, terminating, notReady } = slices;
  if (count === 0) {
    if (object?.type === 'ExternalName') return api('note', 'no EndpointSlice: it has none');
    return api(problem(target), `no EndpointSlice${object ? '' : ': no such Service, or one that selects no pods'}`);
  }
  const pods = [`${ready} ready`];
  if (terminating > 0) pods.push(`${terminating} terminating`);
  if (notReady > 0) pods.push(`${notReady} not ready`);
  const text = `${count} EndpointSlice${count === 1 ? '' : 's'} (${families.join(', ')}): pods ${pods.join(', ')}`;
  const whyNotReady =
    podsOf(slices) > 0
      ? `Find out why no pod is ready: kubectl describe pods -n ${namespace}`
      : `Compare the selector with the labels of the pods, if there are any: kubectl get service ${service} -n ${namespace} -o wide; kubectl get pods -n ${namespace} --show-labels`;
  return api(ready + terminating > 0 ? 'ok' : 'fail', text, {
    todo: object !== null && ready === 0 ? whyNotReady : undefined,
  });
}

/** Compares the port of the target with those of the Service and its pods. */
function portOfTheService(facts: Facts, target: Target): readonly Finding[] {
  const { slices, object, getService } = facts.api ?? {};
  if (slices === undefined || target.kind === 'static') return [];
  const { port } = target;
  const { ports: names } = slices;
  const known = names.length > 0 ? [api('ok', `ports by name: ${quotedNames(names)}`)] : [];
  const missing = portThatNoPodHas(facts, port);
  if (missing !== undefined) return [...known, missing];
  if (typeof port === 'string') {
    if (names.length === 0 || names.includes(port)) return known;
    const text = `no port is named ${JSON.stringify(port)}; there is ${quotedNames(names)}`;
    return [api('fail', text, { todo: `Use a port the Service has: ${quotedNames(names)}` })];
  }
  const isUnknown = facts.use.errors.some((error) => error.includes(`has no port ${port};`));
  const todo = isUnknown
    ? `Use a port the Service has: ${portsInWords(object?.ports ?? [])}`
    : names.length > 1 && getService?.state === 'forbidden'
      ? `Name the port (${quotedNames(names)}) in place of ${port}: a number cannot be told apart without "get services".`
      : undefined;
  return todo === undefined ? known : [...known, { where: 'api', mark: 'note', todo }];
}

/** A port whose `targetPort` is a name that no container has is in no EndpointSlice, although its pods are. */
function portThatNoPodHas(facts: Facts, port: number | string): Finding | undefined {
  const { slices, object, namespace, service } = facts.api ?? {};
  if (!slices || slices.ready + slices.terminating === 0 || (isUsable(facts) && facts.use.mode !== 'name'))
    return undefined;
  const meant = portsMeant(port, object?.ports ?? []).find(isTcp);
  const name = meant?.targetPort;
  const isMissing = object
    ? name !== undefined && !slices.ports.includes(meant?.name ?? '')
    : slices.ports.length === 0;
  if (!isMissing) return undefined;
  const text =
    name === undefined
      ? "no pod has a port of this Service: its targetPort is a name that no container's port has"
      : `no pod has a port named ${JSON.stringify(name)}, which is the targetPort of port ${JSON.stringify(port)}`;
  const wanted = name === undefined ? 'that name' : `the name ${JSON.stringify(name)}`;
  const todo = `Give a port of the pods' containers ${wanted}, or make targetPort a number: kubectl edit service ${service} -n ${namespace}`;
  return api('fail', text, { todo });
}

/** Describes topology hints, all of which are ignored if a single ready endpoint has none. */
function topologyHints({ api: known }: Facts): readonly Finding[] {
  const shown = (known?.slices?.hints ?? []).filter(({ hinted }) => hinted > 0);
  return shown.map(({ kind, hinted, of, names }) => {
    const some = names.slice(0, MAX_LISTED).join(', ') + (names.length > MAX_LISTED ? ', …' : '');
    return hinted === of
      ? api('note', `${kind} hints on all ready pods (${some}): followed by the stage topologyHints`)
      : api('note', `${kind} hints on ${hinted} of ${of} ready pods (${some}): ignored, because every pod needs one`);
  });
}

/** An address in the target, or a name that stands for it, may be the cluster IP of a Service, whose pods are then not balanced. */
function clusterIPInPlaceOfService({ clusterIPs = [] }: Facts, target: Target): readonly Finding[] {
  return clusterIPs.map(({ address, service }) => {
    const text = `${address} is the cluster IP of ${service}`;
    return use('warn', `${text}: one address for all pods`, {
      outcome: 'degraded',
      summary: `${text}, where kube-proxy picks a pod once per connection`,
      todo: `Use the Service's own name: ${service}:${target.kind === 'static' ? '<port>' : target.port}`,
    });
  });
}

function betterWay(facts: Facts, target: Target): Finding | undefined {
  if (throughExternalName(facts) !== undefined) return undefined;
  const { mode } = facts.use;
  if (mode === 'name') {
    return verdict(
      'degraded',
      'only through one address for all pods',
      'Or make the Service headless (clusterIP: None): then its pods are in DNS and no permission is needed.',
    );
  }
  if (mode === 'dns' && facts.api !== undefined)
    return verdict('degraded', 'through DNS; EndpointSlices would be better');
  if (target.kind !== 'dns' || facts.dns?.kind !== 'cluster-ip') return undefined;
  return verdict('degraded', 'DNS names only the cluster IP, where kube-proxy picks a pod once per connection');
}

function dnsAnswers({ dns: known, use: { mode } }: Facts, target: Target): readonly Finding[] {
  if (known === undefined) return [];
  const { name, servers, a, aaaa, srv, kind, alias } = known;
  const nameServers = servers.join(', ');
  const todo =
    unanswered(a) && mode !== 'slices' ? `Find out why the name server ${nameServers} does not answer.` : undefined;
  const lines = [dns('note', `name servers: ${nameServers}`, { todo }), answer(target, `A ${name}`, a)];
  // A cluster with one IP family has no records of the other, which is not worth a line.
  if (aaaa.error !== 'ENODATA' && aaaa.error !== a.error) lines.push(answer(target, `AAAA ${name}`, aaaa));
  if (srv.name !== name) lines.push(answer(target, `SRV ${srv.name}`, srv));
  if (kind === 'pods') lines.push(dns('ok', 'the addresses are pods: a headless Service'));
  if (kind === 'cluster-ip') {
    // With EndpointSlices nothing depends on it.
    lines.push(dns(mode === 'slices' ? 'note' : 'warn', 'the address is the cluster IP: one for all pods'));
  }
  if (alias !== undefined) lines.push(dns('note', `another name for ${alias}: an ExternalName Service`));
  if (kind === 'unknown') {
    const what = a.records + aaaa.records > 1 ? 'they are pods or stand' : 'it is a pod or stands';
    lines.push(dns('note', `DNS does not tell whether ${what} for others`));
  }
  return lines;
}

function answer({ kind }: Target, question: string, { records, ttl, error, tookMs }: DnsAnswerFacts): Finding {
  if (error === undefined) {
    const lasting = ttl === undefined ? '' : `, TTL ${ttl} s`;
    return dns('ok', `${question}: ${records} record${records === 1 ? '' : 's'}${lasting} (${tookMs} ms)`);
  }
  const text = `${question}: ${dnsErrors.get(error) ?? error} (${error}, ${tookMs} ms)`;
  return dns(kind === 'dns' ? 'fail' : 'warn', text);
}

const dnsErrors: ReadonlyMap<string, string> = new Map([
  ['ENOTFOUND', 'no such name'],
  ['ENODATA', 'no record of this kind'],
  ['ESERVFAIL', 'the name server could not answer'],
  ['EREFUSED', 'the name server refuses the query'],
  ['ECONNREFUSED', 'no name server listens'],
  ['ETIMEOUT', 'no answer'],
  ['ECANCELLED', 'no answer in time'],
]);

function clientsOfTheApp({ process: known }: Facts): Finding | readonly Finding[] {
  if (known === undefined) return [];
  const { url, error, unbalanced } = known;
  if (error !== undefined) return app('warn', `admin page ${url}: ${error}`);
  if (unbalanced === undefined) {
    return app('note', 'evenkeel/register is not in use: clients are balanced where the app says so');
  }
  const { length } = unbalanced;
  if (length === 0) return app('ok', 'evenkeel/register found none that it does not balance');
  const summary =
    length === 1 ? '1 client of the app is not balanced' : `${length} clients of the app are not balanced`;
  return unbalanced.map(({ what, count, remedy }) =>
    app('warn', `not balanced: ${what}, ${count} time${count === 1 ? '' : 's'}`, {
      outcome: 'degraded',
      summary,
      todo: `To balance ${what}: ${remedy}`,
    }),
  );
}

function allIsWell(facts: Facts, target: Target): Finding {
  const { use: found } = facts;
  const count = isSlots(found.endpoints ?? []) ? 1 : usable(found.endpoints ?? []).length;
  const external = throughExternalName(facts);
  const how =
    external === undefined ? `${howFound(facts, target)}${unchecked(facts, target)}` : `by asking DNS for ${external}`;
  const summary = `${count} endpoint${count === 1 ? '' : 's'}, found ${how}`;
  return verdict('fine', summary);
}

function howFound({ use: { mode } }: Facts, { kind }: Target): string {
  if (kind === 'static') return 'in the target itself';
  return mode === 'slices' || kind === 'kubernetes' ? 'by watching EndpointSlices' : 'by asking DNS';
}

/**
 * What `evenkeel doctor` could not check about the target's port: a Service's only port is found without its number, and checking the
 * number takes a permission.
 */
function unchecked({ api: known, use: { mode } }: Facts, target: Target): string {
  if (target.kind === 'static' || target.kind === 'dns' || typeof target.port !== 'number') return '';
  if (known?.getService.state !== 'forbidden' || (mode !== undefined && mode !== 'slices')) return '';
  return `; its only port is used, and whether that is ${target.port} cannot be checked without "get services"`;
}

function isUsable({ use: { endpoints = [] } }: Facts): boolean {
  return usable(endpoints).length > 0;
}

/** The name for which an ExternalName Service is an alias; DNS shows it too. */
function externalNameOf({ api: known, dns: answers }: Facts): string | undefined {
  const { object } = known ?? {};
  if (object) return object.type === 'ExternalName' ? object.externalName : undefined;
  return answers?.kind === 'external' || answers?.a.records === 0 ? answers.alias : undefined;
}

/** The name for which an ExternalName Service is an alias, if its endpoints were found by that name. */
function throughExternalName(facts: Facts): string | undefined {
  const { mode, endpoints } = facts.use;
  return mode !== 'slices' && endpoints?.length ? externalNameOf(facts) : undefined;
}

function podsOf({ ready, terminating, notReady }: NonNullable<ApiFacts['slices']>): number {
  return ready + terminating + notReady;
}

function portsMeant(port: number | string, ports: readonly ServicePort[]): readonly ServicePort[] {
  return ports.filter((known) => (typeof port === 'number' ? known.port : known.name) === port);
}

function isTcp({ protocol }: ServicePort): boolean {
  return protocol === 'TCP';
}

/** Joins the names of ports for reading. */
function quotedNames(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(', ');
}
