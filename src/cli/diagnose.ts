import type { Endpoint } from '../endpoint/endpoint.js';
import { rungMeaning } from '../resolver/ladder-advice.js';
import { serviceAccountIn, sliceReaderManifest } from '../resolver/rbac.js';
import { isSlots } from '../resolver/single-address.js';
import { noPod } from '../resolver/target.js';
import type { Target } from '../resolver/target-grammar.js';
import type {
  ApiFacts,
  ConnectFacts,
  Diagnosis,
  DnsAnswerFacts,
  DnsFacts,
  Facts,
  Line,
  Outcome,
  Verdict,
} from './report.js';

/** What the facts mean: which line is good or bad, how it is on the whole, and what to change. Pure. */
export function diagnose(parsed: Target, facts: Facts): Diagnosis {
  const todo = todoOf(parsed, facts);
  const { outcome, summary } = judge(parsed, facts);
  return {
    outcome,
    summary,
    api: facts.api === undefined ? [] : apiLines(parsed, facts.api),
    dns: facts.dns === undefined ? [] : dnsLines(parsed, facts.dns, facts.use.rung === 'slices'),
    use: useLines(facts),
    connections: facts.connections.map(connectionLine),
    todo,
  };
}

const ok = (text: string): Line => ({ mark: 'ok', text });
const note = (text: string): Line => ({ mark: 'note', text });
const warn = (text: string): Line => ({ mark: 'warn', text });
const fail = (text: string): Line => ({ mark: 'fail', text });

/** What stands on its own is a failure where it is the only way, and a warning where there is another. */
const bad = (parsed: Target, text: string): Line => (parsed.kind === 'plain' ? warn(text) : fail(text));

function judge(parsed: Target, facts: Facts): { readonly outcome: Outcome; readonly summary: string } {
  const { use, api, connections } = facts;
  if (use.endpoints === undefined) {
    return { outcome: 'unusable', summary: whyNothing(facts) };
  }
  const usable = usableCount(use.endpoints);
  if (usable === 0) return { outcome: 'unusable', summary: whyEmpty(facts) };
  const reached = connections.filter((connection) => connection.error === undefined).length;
  if (connections.length > 0 && reached === 0) {
    return { outcome: 'unusable', summary: 'endpoints were found, but none of them accepts a connection' };
  }
  const degraded = (summary: string): { outcome: Outcome; summary: string } => ({ outcome: 'degraded', summary });
  if (reached < connections.length) {
    return degraded(`${connections.length - reached} of ${connections.length} endpoints accept no connection`);
  }
  if (api?.watch.state === 'forbidden' && api.list.state === 'allowed') {
    return degraded('changes are noticed late: EndpointSlices may be listed, and not watched');
  }
  if (use.rung === 'name') return degraded('only through one address for all pods, which is second best');
  if (use.rung === 'dns' && api !== undefined) return degraded('through DNS; EndpointSlices would be better');
  if (parsed.kind === 'dns' && facts.dns?.kind === 'cluster-ip') {
    return degraded('DNS names only the cluster IP, where kube-proxy picks a pod once per connection');
  }
  const many = `${usable} endpoint${usable === 1 ? '' : 's'}`;
  return { outcome: 'fine', summary: `${many}, found ${howFound(parsed, use.rung)}` };
}

function howFound(parsed: Target, rung: string | undefined): string {
  if (parsed.kind === 'static') return 'in the target itself';
  return rung === 'slices' || parsed.kind === 'kubernetes' ? 'by watching EndpointSlices' : 'by asking DNS';
}

/** As the conditions stage counts: ready ones, or those that serve until they end. */
function usableCount(endpoints: readonly Endpoint[]): number {
  const ready = endpoints.filter((endpoint) => endpoint.conditions.ready).length;
  if (ready > 0) return ready;
  return endpoints.filter(({ conditions }) => conditions.serving && conditions.terminating).length;
}

function whyNothing({ api, dns, use }: Facts): string {
  const [noApi, noDns] = [api?.list.state === 'failed', dns !== undefined && unanswered(dns.a)];
  if (noApi && noDns) return 'neither the API server nor a name server answers';
  if (api?.list.state === 'forbidden' && dns === undefined) return 'the API server does not let us list EndpointSlices';
  return use.errors.at(-1) ?? 'nothing answered in time';
}

function whyEmpty({ api, use }: Facts): string {
  if (use.endpoints !== undefined && use.endpoints.length > 0)
    return `none of its ${use.endpoints.length} pods is ready`;
  const slices = api?.slices;
  if (api?.object === null) return `there is no Service ${api.service} in the namespace ${api.namespace}`;
  if (slices === undefined || slices.count === 0) return 'nothing of that name was found';
  const pods = slices.ready + slices.terminating + slices.notReady;
  if (pods === 0) return 'the Service has no pods';
  return slices.ready === 0 ? `none of its ${pods} pods is ready` : 'none of its pods has that port';
}

function apiLines(parsed: Target, api: ApiFacts): Line[] {
  const { server, list, watch, getService, slices, object } = api;
  if (list.state === 'not-asked') {
    const text = `not asked: ${api.reason}`;
    return [parsed.kind === 'plain' ? note(text) : fail(text)];
  }
  if (list.state === 'failed') return [bad(parsed, `API server ${server}: ${list.message}`)];
  const lines = [ok(`API server ${server} answers`)];
  lines.push(verbLine(parsed, 'list endpointslices', list), verbLine(parsed, 'watch endpointslices', watch));
  if (getService.state === 'forbidden')
    lines.push(note('get services: not allowed; needed only to read a port number'));
  else lines.push(verbLine(parsed, 'get services', getService));
  if (object === null) lines.push(bad(parsed, `no Service ${api.service} in the namespace ${api.namespace}`));
  else if (object !== undefined) lines.push(serviceLine(object));
  if (slices !== undefined) lines.push(...sliceLines(parsed, slices));
  return lines;
}

function verbLine(parsed: Target, what: string, verdict: Verdict): Line {
  if (verdict.state === 'allowed') return ok(`${what}: allowed`);
  if (verdict.state === 'not-asked') return note(`${what}: not asked`);
  return bad(parsed, `${what}: ${verdict.state === 'forbidden' ? 'not allowed' : 'failed'}: ${verdict.message}`);
}

function serviceLine({ type, headless, clusterIP, ports }: NonNullable<ApiFacts['object']>): Line {
  const kind = headless ? 'headless' : `${type}${clusterIP === undefined ? '' : `, cluster IP ${clusterIP}`}`;
  const list = ports.map(({ name, port }) => (name === '' ? `${port}` : `${name} ${port}`)).join(', ');
  return ok(`Service: ${kind}; ports: ${list || 'none'}`);
}

function sliceLines(parsed: Target, slices: NonNullable<ApiFacts['slices']>): Line[] {
  const { count, ports, families, ready, terminating, notReady } = slices;
  if (count === 0) return [bad(parsed, 'no EndpointSlice: no such Service, or one that selects no pods')];
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
  return lines;
}

function dnsLines(parsed: Target, { name, servers, a, aaaa, srv, kind }: DnsFacts, spare: boolean): Line[] {
  const lines: Line[] = [note(`name servers: ${servers.join(', ')}`)];
  lines.push(answerLine(parsed, `A ${name}`, a));
  // A cluster of one family has no records of the other; that is no news.
  if (aaaa.error !== 'ENODATA' && aaaa.error !== a.error) lines.push(answerLine(parsed, `AAAA ${name}`, aaaa));
  if (srv.name !== name) lines.push(answerLine(parsed, `SRV ${srv.name}`, srv));
  if (kind === 'pods') lines.push(ok('the addresses are pods: a headless Service'));
  if (kind === 'cluster-ip') lines.push((spare ? note : warn)('the address is the cluster IP: one for all pods'));
  if (kind === 'unknown') lines.push(note('one address; DNS does not tell whether it is a pod or stands for all'));
  return lines;
}

function answerLine(parsed: Target, question: string, { records, ttl, error, tookMs }: DnsAnswerFacts): Line {
  if (error === undefined) {
    const lasting = ttl === undefined ? '' : `, TTL ${ttl} s`;
    return ok(`${question}: ${records} record${records === 1 ? '' : 's'}${lasting} (${tookMs} ms)`);
  }
  const text = `${question}: ${dnsErrors[error] ?? error} (${error}, ${tookMs} ms)`;
  return parsed.kind === 'dns' ? fail(text) : warn(text);
}

const dnsErrors: Readonly<Record<string, string>> = {
  ENOTFOUND: 'no such name',
  ENODATA: 'no record of this kind',
  ESERVFAIL: 'the name server could not look',
  EREFUSED: 'the name server refuses the question',
  ECONNREFUSED: 'no name server listens',
  ETIMEOUT: 'no answer',
  ECANCELLED: 'no answer in time',
};

function useLines({ use }: Facts): Line[] {
  const lines: Line[] = [];
  const { rung, endpoints, errors, warnings } = use;
  // Why it stands there is told above, question by question.
  if (rung === 'slices') lines.push(ok('its EndpointSlices are watched'));
  else if ((rung === 'dns' || rung === 'name') && endpoints?.length) lines.push(note(rungMeaning[rung]));
  if (endpoints === undefined) {
    for (const error of errors) lines.push(fail(error));
    if (errors.length === 0) lines.push(fail('nothing answered in time'));
  } else if (endpoints.length === 0) {
    lines.push(fail('no endpoint'));
  } else if (isSlots(endpoints)) {
    const [first] = endpoints as readonly [Endpoint];
    lines.push(
      note(`${first.address}:${first.port}, over ${endpoints.length} connections that are replaced by and by`),
    );
  } else {
    lines.push(...endpoints.slice(0, MAX_LISTED).map(endpointLine));
    if (endpoints.length > MAX_LISTED) lines.push(note(`and ${endpoints.length - MAX_LISTED} more`));
  }
  for (const warning of warnings) lines.push(warn(warning));
  return lines;
}

/** Endpoints listed one by one. */
const MAX_LISTED = 20;

function endpointLine(endpoint: Endpoint): Line {
  const { ready, serving, terminating } = endpoint.conditions;
  const state = ready ? 'ready' : terminating ? (serving ? 'terminating, still serving' : 'terminating') : 'not ready';
  const facts = [endpoint.name, endpoint.zone && `zone ${endpoint.zone}`, state].filter(Boolean).join(', ');
  const text = `${endpoint.key.replace(/#.*/, '')}  ${facts}`;
  return ready ? ok(text) : note(text);
}

function connectionLine({ endpoint, tookMs, error }: ConnectFacts): Line {
  return error === undefined ? ok(`${endpoint} accepts connections (${tookMs} ms)`) : fail(`${endpoint}: ${error}`);
}

function todoOf(parsed: Target, { api, dns, use, connections }: Facts): string[] {
  const todo: string[] = [];
  const port = parsed.kind === 'static' ? undefined : parsed.port;
  const refused = connections.some((connection) => connection.error !== undefined);
  if (
    refused &&
    dns?.kind === 'pods' &&
    typeof port === 'number' &&
    use.rung !== 'slices' &&
    parsed.kind !== 'kubernetes'
  ) {
    todo.push(
      `DNS does not know the pods' ports, so ${port} was tried on them: name the port, or use the pods' own number.`,
    );
  } else if (refused) {
    todo.push('See whether the pods listen on that port, and whether a network policy lets this pod reach them.');
  }
  if (api?.list.state === 'forbidden' || api?.watch.state === 'forbidden') {
    const message = `${api.list.message ?? ''} ${api.watch.message ?? ''}`;
    const account = serviceAccountIn(message) ?? { namespace: api.namespace ?? 'default', name: 'default' };
    const manifest = sliceReaderManifest(api.namespace ?? 'default', account);
    todo.push(
      `Let ${account.namespace}/${account.name} watch EndpointSlices: kubectl apply -f - <<'EOF'\n${manifest}EOF`,
    );
  } else if (api !== undefined && api.list.state === 'not-asked' && parsed.kind !== 'dns') {
    const elsewhere =
      'Run this where the application runs, in a pod with a service account, or name an API server or kubeconfig.';
    todo.push(api.reason === noPod ? elsewhere : `Put this right: ${api.reason}`);
  } else if (api?.list.state === 'failed') {
    todo.push(
      `Find out why ${api.server} cannot be reached from here: a network policy, a proxy, or the API server itself.`,
    );
  }
  if (api?.object === null) {
    todo.push(`Check the name: kubectl get services -n ${api.namespace}`);
  } else if (api?.slices !== undefined && api.slices.count > 0 && api.slices.ready === 0) {
    todo.push(`See why no pod is ready: kubectl describe pods -n ${api.namespace}`);
  }
  const names = api?.slices?.ports ?? [];
  if (typeof port === 'string' && names.length > 0 && !names.includes(port)) {
    todo.push(`Use a port the Service has: ${list(names)}`);
  } else if (typeof port === 'number' && names.length > 1 && api?.getService.state === 'forbidden') {
    todo.push(
      `Name the port (${list(names)}) in place of ${port}: a number cannot be told apart without "get services".`,
    );
  }
  if (use.rung === 'name') {
    todo.push('Or make the Service headless (clusterIP: None): then its pods are in DNS and no permission is needed.');
  }
  if (dns !== undefined && unanswered(dns.a) && parsed.kind !== 'kubernetes' && use.rung !== 'slices') {
    todo.push(`Find out why the name server ${dns.servers.join(', ')} does not answer.`);
  }
  return todo;
}

function unanswered({ error }: DnsAnswerFacts): boolean {
  return error !== undefined && error !== 'ENOTFOUND' && error !== 'ENODATA';
}

function list(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(', ');
}
