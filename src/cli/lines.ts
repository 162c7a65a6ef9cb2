import { type Endpoint, endpointAddress, withOtherFirst } from '../endpoint/endpoint.js';
import { modeMeaning } from '../resolver/discovery-advice.js';
import { portsInWords, type ServiceFacts } from '../resolver/kubernetes/slices/service-ports.js';
import { isSlots } from '../resolver/single-address.js';
import type { Target } from '../resolver/target-grammar.js';
import { topologyFromEnv } from '../runtime/topology.js';
import { externalNameOf } from './cause.js';
import { conditionsInWords } from './endpoints.js';
import type {
  ApiFacts,
  ConnectFacts,
  DnsAnswerFacts,
  DnsFacts,
  Facts,
  HintFacts,
  Line,
  Permission,
  ProcessFacts,
} from './report.js';

const ok = (text: string): Line => ({ mark: 'ok', text });
const note = (text: string): Line => ({ mark: 'note', text });
const warn = (text: string): Line => ({ mark: 'warn', text });
const fail = (text: string): Line => ({ mark: 'fail', text });

/** A line about a way to find endpoints that does not work. It is a failure if the target allows no other way, otherwise a warning. */
const bad = (parsed: Target, text: string): Line => (parsed.kind === 'plain' ? warn(text) : fail(text));

/** Describes what the API server answered, line by line. */
export function apiLines(parsed: Target, api: ApiFacts): Line[] {
  const { server, list, watch, getService, slices, object } = api;
  if (list.state === 'not-asked') {
    const text = `not asked: ${api.reason}`;
    return [parsed.kind === 'plain' ? note(text) : fail(text)];
  }
  if (list.state === 'failed') return [bad(parsed, `API server ${server}: ${list.message}`)];
  const lines = [ok(`API server ${server} answers`)];
  lines.push(verbLine(parsed, 'list endpointslices', list), verbLine(parsed, 'watch endpointslices', watch));
  if (getService.state === 'forbidden')
    lines.push(note("get services: not allowed; a port number's meaning and the Service's rules are unknown"));
  else lines.push(verbLine(parsed, 'get services', getService));
  if (object === null) lines.push(bad(parsed, `no Service ${api.service} in the namespace ${api.namespace}`));
  else if (object !== undefined) lines.push(serviceLine(object), ...ruleLines(object));
  if (slices !== undefined) lines.push(...sliceLines(parsed, slices, object));
  return lines;
}

function verbLine(parsed: Target, what: string, verdict: Permission): Line {
  if (verdict.state === 'allowed') return ok(`${what}: allowed`);
  if (verdict.state === 'not-asked') return note(`${what}: not asked`);
  return bad(parsed, `${what}: ${verdict.state === 'forbidden' ? 'not allowed' : 'failed'}: ${verdict.message}`);
}

function serviceLine(object: NonNullable<ApiFacts['object']>): Line {
  const { type, headless, clusterIP, externalName, ports } = object;
  if (type === 'ExternalName') return ok(`Service: ExternalName, stands for ${externalName}`);
  const kind = headless ? 'headless' : `${type}${clusterIP === undefined ? '' : `, cluster IP ${clusterIP}`}`;
  return ok(`Service: ${kind}; ports: ${portsInWords(ports)}`);
}

/** Describes what the Service says about who may call which pod, and whether that is followed here. */
function ruleLines({ headless, internalTrafficPolicy, sessionAffinity, trafficDistribution }: ServiceFacts): Line[] {
  const { zone, nodeName } = topologyFromEnv();
  const lines: Line[] = [];
  if (internalTrafficPolicy === 'Local' && !headless) {
    const rule = 'internalTrafficPolicy: Local';
    if (nodeName === undefined) lines.push(warn(`${rule}: NODE_NAME is not set here, so kube-proxy chooses the pod`));
    else lines.push(note(`${rule}: only pods of the node ${nodeName} are used`));
  }
  if (sessionAffinity === 'ClientIP' && !headless)
    lines.push(note('sessionAffinity: ClientIP: this host stays with one pod while that is usable'));
  if (trafficDistribution !== undefined) {
    const place = zone ?? nodeName;
    const how =
      place === undefined ? 'not followed: TOPOLOGY_ZONE and NODE_NAME are not set here' : 'hints are followed';
    lines.push(note(`trafficDistribution: ${trafficDistribution}: ${how}`));
  }
  return lines;
}

function sliceLines(parsed: Target, slices: NonNullable<ApiFacts['slices']>, object: ApiFacts['object']): Line[] {
  const { count, ports, families, ready, terminating, notReady } = slices;
  if (count === 0) {
    if (object?.type === 'ExternalName') return [note('no EndpointSlice: it has none')];
    const known = object ? '' : ': no such Service, or one that selects no pods';
    return [bad(parsed, `no EndpointSlice${known}`)];
  }
  const pods = [`${ready} ready`];
  if (terminating > 0) pods.push(`${terminating} terminating`);
  if (notReady > 0) pods.push(`${notReady} not ready`);
  const text = `${count} EndpointSlice${count === 1 ? '' : 's'} (${families.join(', ')}): pods ${pods.join(', ')}`;
  const lines = [ready + terminating > 0 ? ok(text) : fail(text)];
  const named = parsed.kind === 'static' ? undefined : parsed.port;
  if (typeof named === 'string' && ports.length > 0 && !ports.includes(named)) {
    lines.push(fail(`no port is named ${JSON.stringify(named)}; there is ${list(ports)}`));
  } else if (ports.length > 0) {
    lines.push(ok(`ports by name: ${list(ports)}`));
  }
  for (const hints of slices.hints) if (hints.hinted > 0) lines.push(hintLine(hints));
  return lines;
}

/** Describes the topology hints of one kind, all of which are ignored if a single ready endpoint has none. */
function hintLine({ kind, hinted, of, names }: HintFacts): Line {
  const some = names.slice(0, MAX_LISTED).join(', ') + (names.length > MAX_LISTED ? ', …' : '');
  return hinted === of
    ? note(`${kind} hints on all ready pods (${some}): followed by the stage topologyHints`)
    : note(`${kind} hints on ${hinted} of ${of} ready pods (${some}): ignored, because every pod needs one`);
}

/** Describes what the name servers answered, line by line; `spare` says that nothing depends on them at the moment. */
export function dnsLines(
  parsed: Target,
  { name, servers, a, aaaa, srv, kind, alias }: DnsFacts,
  spare: boolean,
): Line[] {
  const lines: Line[] = [note(`name servers: ${servers.join(', ')}`)];
  lines.push(answerLine(parsed, `A ${name}`, a));
  // A cluster with one IP family has no records of the other, which is not worth a line.
  if (aaaa.error !== 'ENODATA' && aaaa.error !== a.error) lines.push(answerLine(parsed, `AAAA ${name}`, aaaa));
  if (srv.name !== name) lines.push(answerLine(parsed, `SRV ${srv.name}`, srv));
  if (kind === 'pods') lines.push(ok('the addresses are pods: a headless Service'));
  if (kind === 'cluster-ip') lines.push((spare ? note : warn)('the address is the cluster IP: one for all pods'));
  if (alias !== undefined) lines.push(note(`another name for ${alias}: an ExternalName Service`));
  if (kind === 'unknown') {
    const what = a.records + aaaa.records > 1 ? 'they are pods or stand' : 'it is a pod or stands';
    lines.push(note(`DNS does not tell whether ${what} for others`));
  }
  return lines;
}

function answerLine(parsed: Target, question: string, { records, ttl, error, tookMs }: DnsAnswerFacts): Line {
  if (error === undefined) {
    const lasting = ttl === undefined ? '' : `, TTL ${ttl} s`;
    return ok(`${question}: ${records} record${records === 1 ? '' : 's'}${lasting} (${tookMs} ms)`);
  }
  const text = `${question}: ${dnsErrors.get(error) ?? error} (${error}, ${tookMs} ms)`;
  return parsed.kind === 'dns' ? fail(text) : warn(text);
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

/** Describes what the library found, working as a resolver does in an application, line by line. */
export function useLines(facts: Facts): Line[] {
  const lines: Line[] = [];
  const { mode, endpoints, errors, warnings } = facts.use;
  const external = externalNameOf(facts);
  // The lines of the API server say why: a permission is missing there.
  const isLate = facts.api?.list.state === 'allowed' && facts.api.watch.state !== 'allowed';
  if (mode === 'slices' && isLate) lines.push(warn('its EndpointSlices are listed from time to time, not watched'));
  else if (mode === 'slices') lines.push(ok('its EndpointSlices are watched'));
  else if (external !== undefined && endpoints?.length) lines.push(note(`DNS is queried repeatedly for ${external}`));
  else if ((mode === 'dns' || mode === 'name') && endpoints?.length) lines.push(note(modeMeaning[mode]));
  const family = familyLine(facts);
  if (family !== undefined) lines.push(family);
  if (endpoints === undefined) {
    for (const error of errors) lines.push(fail(error));
    if (errors.length === 0) lines.push(fail('nothing answered in time'));
  } else if (endpoints.length === 0) {
    lines.push(fail('no endpoint'));
  } else if (isSlots(endpoints)) {
    const [first] = endpoints as readonly [Endpoint];
    lines.push(note(`${first.address}:${first.port}, over ${endpoints.length} connections that are replaced in turn`));
  } else {
    lines.push(...endpoints.slice(0, MAX_LISTED).map(endpointLine));
    if (endpoints.length > MAX_LISTED) lines.push(note(`and ${endpoints.length - MAX_LISTED} more`));
  }
  for (const warning of warnings) lines.push(warn(warning));
  return lines;
}

/** Says which addresses are dialed, if that is not obvious: a Service has both IP families, or one that this host does not have. */
function familyLine({ api, dns, use: { mode }, hostFamilies }: Facts): Line | undefined {
  const slices = mode === 'dns' || mode === 'name' ? undefined : api?.slices?.families;
  const ofDns = [...(dns?.a.records ? ['IPv4'] : []), ...(dns?.aaaa.records ? ['IPv6'] : [])];
  const [first, second] = slices?.length ? slices : ofDns;
  if (first === undefined) return undefined;
  const [host, otherOfHost] = hostFamilies;
  const isHostOfOne = host !== undefined && otherOfHost === undefined;
  if (second === undefined) {
    if (!isHostOfOne || first === host) return undefined;
    return warn(`all addresses are ${first}, and this host has ${host} alone`);
  }
  if (isHostOfOne) return note(`of both IP families ${host} is used: this host has no other`);
  const why = host === undefined ? 'this host has only loopback' : 'this host has both';
  if (slices === undefined) return note(`of both IP families IPv4 is used: ${why}`);
  return note(`a pod is one endpoint with two addresses, and IPv4 is tried first: ${why}`);
}

/** The largest number of endpoints that are listed one by one. */
const MAX_LISTED = 20;

function endpointLine(endpoint: Endpoint): Line {
  const { name, zone, conditions } = endpoint;
  const also = endpoint.otherAddress && `also ${endpointAddress(withOtherFirst(endpoint))}`;
  const facts = [name, zone && `zone ${zone}`, also, conditionsInWords(endpoint)].filter(Boolean).join(', ');
  const text = `${endpointAddress(endpoint)}  ${facts}`;
  return conditions.ready ? ok(text) : note(text);
}

/** Says whether the endpoints accept connections, and what HTTP/2 means for clients that evenkeel does not balance. */
export function connectionLines({ connections, http2 }: Facts): Line[] {
  const lines = connections.map(connectionLine);
  if (http2 === undefined) return lines;
  const { endpoint, node, isOffered } = http2;
  const who = isOffered ? `so does fetch of this Node (${node})` : 'from Node 26 on so does fetch';
  return [...lines, note(`${endpoint} speaks HTTP/2, and ${who}: without evenkeel it stays with one pod`)];
}

function connectionLine({ endpoint, tookMs, error }: ConnectFacts): Line {
  return error === undefined ? ok(`${endpoint} accepts connections (${tookMs} ms)`) : fail(`${endpoint}: ${error}`);
}

/** Describes what the app's own process says about its clients, line by line. */
export function processLines({ url, error, left }: ProcessFacts): Line[] {
  if (error !== undefined) return [warn(`admin page ${url}: ${error}`)];
  if (left === undefined) return [note('evenkeel/register is not in use: clients are balanced where the app says so')];
  if (left.length === 0) return [ok('evenkeel/register found none that it does not balance')];
  return left.map(({ what, count }) => warn(`not balanced: ${what}, ${count} time${count === 1 ? '' : 's'}`));
}

/** Joins the names of ports for reading. */
export function list(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(', ');
}
