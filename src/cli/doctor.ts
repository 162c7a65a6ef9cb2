import { asError } from '../errors.js';
import {
  absoluteName,
  type ClusterNames,
  clusterNames,
  parseServiceHost,
  plainName,
  type ServiceHost,
} from '../resolver/cluster-domain.js';
import { literalAddress } from '../resolver/dns.js';
import { hostFamilies } from '../resolver/host-families.js';
import type { Target } from '../resolver/target-grammar.js';
import { systemClock } from '../runtime/clock.js';
import { readUnbalanced } from './admin-page.js';
import type { DoctorCommand } from './command-line.js';
import { usable } from './endpoints.js';
import { diagnose } from './findings.js';
import { follow, printEvent } from './follow.js';
import { loadKubeConfig } from './load-kube-config.js';
import { printReport } from './print.js';
import { probeApi } from './probe-api.js';
import { probeConnections } from './probe-connect.js';
import { probeClusterIPs, probeDns, probeNamespace } from './probe-dns.js';
import { probeResolver } from './probe-resolver.js';
import {
  type ClusterIPFacts,
  type ConnectFacts,
  type Diagnosis,
  exitCodes,
  type Facts,
  type Http2Facts,
  type ProcessFacts,
} from './report.js';

/** Where a command writes its output, and the signal that ends it. */
export interface CommandContext {
  readonly write: (text: string) => void;
  /** Aborts when the user presses Ctrl-C. */
  readonly signal: AbortSignal;
}

/** Runs `evenkeel doctor`. Resolves to the exit code. */
export async function doctor(parsedCommand: DoctorCommand, { write, signal }: CommandContext): Promise<number> {
  const command = await withKubeConfig(parsedCommand);
  const { target, parsed, options, json } = command;
  const facts = await examine(command, signal);
  const diagnosis = diagnose(parsed, facts);
  write(json ? `${JSON.stringify(toJson(target, facts, diagnosis))}\n` : printReport(target, diagnosis));
  if (command.watch && !signal.aborted) {
    if (!json) write('\nFollowing; Ctrl-C ends it\n');
    await follow(target, options, signal, (event) => write(json ? `${JSON.stringify(event)}\n` : printEvent(event)));
  }
  return exitCodes[diagnosis.outcome];
}

async function withKubeConfig(command: DoctorCommand): Promise<DoctorCommand> {
  if (command.kubeConfig === undefined) return command;
  const kubeConfig = await loadKubeConfig(command.kubeConfig);
  return { ...command, options: { ...command.options, kubernetes: { kubeConfig } } };
}

/** Runs all probes in parallel, then tries to connect to the endpoints. */
async function examine(command: DoctorCommand, ended: AbortSignal): Promise<Facts> {
  const { target, options, timeoutMs } = command;
  const limit = new AbortController();
  const timer = systemClock.timer(() => limit.abort(new Error('no answer in time')), timeoutMs);
  timer.ref();
  const signal = AbortSignal.any([limit.signal, ended]);
  const names = await namesFor(command);
  const [api, dns, namespace, use, app] = await Promise.all([
    examineApi(command, names, signal),
    examineDns(command, names, signal),
    examineNamespace(command, names, signal),
    probeResolver(target, options, signal),
    command.admin === undefined ? undefined : probeAdmin(command.admin, signal),
  ]);
  timer.cancel();
  const tried = command.connect ? usable(use.endpoints ?? []) : [];
  const [connections, clusterIPs] = await Promise.all([
    probeConnections(tried, command.tlsHost),
    examineAddresses(command, names, { dns, use }),
  ]);
  const http2 = http2Of(connections);
  const hosts = [...hostFamilies()].sort();
  return { api, dns, namespace, use, hostFamilies: hosts, connections, clusterIPs, http2, process: app };
}

/** Looks for cluster IPs among addresses of which nothing else says what they are. */
async function examineAddresses(
  { parsed, options }: DoctorCommand,
  { domain }: Names,
  { dns, use }: Pick<Facts, 'dns' | 'use'>,
): Promise<readonly ClusterIPFacts[]> {
  const isKnown =
    parsed.kind === 'kubernetes' || use.mode === 'slices' || ['pods', 'cluster-ip'].includes(dns?.kind ?? '');
  const addresses = isKnown ? [] : (use.endpoints ?? []).map(({ address }) => address);
  return probeClusterIPs([...new Set(addresses)], domain, options.dns?.servers);
}

/** Says whether a pod chooses HTTP/2 where it is offered, and whether the `fetch` of this Node offers it. */
function http2Of(connections: readonly ConnectFacts[]): Http2Facts | undefined {
  const chosen = connections.find(({ tls }) => tls?.protocol === 'h2');
  // undici 8 offers HTTP/2 by itself; Node 26 is the first Node that contains it.
  const major = Number.parseInt(process.versions.undici ?? '0', 10);
  return chosen && { endpoint: chosen.endpoint, node: process.versions.node, isOffered: major >= 8 };
}

async function probeAdmin(url: URL, signal: AbortSignal): Promise<ProcessFacts> {
  try {
    return { url: url.href, unbalanced: await readUnbalanced(url, signal) };
  } catch (error) {
    const { message, cause } = asError(error);
    return { url: url.href, error: cause instanceof Error ? cause.message : message };
  }
}

interface Names extends ClusterNames {
  readonly inCluster: boolean;
}

async function namesFor({ options: { dns = {} } }: DoctorCommand): Promise<Names> {
  const names = await clusterNames(dns);
  return { ...names, inCluster: names.namespace !== undefined || dns.clusterDomain !== undefined };
}

async function examineApi(command: DoctorCommand, names: Names, signal: AbortSignal): Promise<Facts['api']> {
  const { parsed, options } = command;
  const service = parsed.kind === 'dns' ? undefined : serviceOf(parsed, names);
  if (service === undefined) return undefined;
  const subject = { service: service.service, namespace: service.namespace ?? names.namespace };
  return probeApi(options.kubernetes ?? {}, subject, signal);
}

/** Returns the Service of this cluster that a target names; undefined if it names none. */
function serviceOf(parsed: Target, { domain }: Names): ServiceHost | undefined {
  if (parsed.kind === 'static') return undefined;
  const service = parsed.kind === 'kubernetes' ? parsed.service : parseServiceHost(parsed.host);
  return service?.domain === undefined || service.domain === domain ? service : undefined;
}

async function examineNamespace(
  { parsed, options }: DoctorCommand,
  names: Names,
  signal: AbortSignal,
): Promise<Facts['namespace']> {
  const service = serviceOf(parsed, names);
  const namespace = service?.namespace ?? names.namespace;
  if (service === undefined || namespace === undefined || !names.inCluster) return undefined;
  return probeNamespace(namespace, names.domain, options.dns?.servers, signal);
}

async function examineDns(
  { parsed, options }: DoctorCommand,
  names: Names,
  signal: AbortSignal,
): Promise<Facts['dns']> {
  if (parsed.kind === 'static' || parsed.kind === 'kubernetes') return undefined;
  const { host, port } = parsed;
  if (literalAddress(host, undefined) !== undefined) return undefined;
  const name = parsed.kind === 'dns' ? absoluteName(host, names) : plainName(host, names, names.inCluster);
  return probeDns({ name, srv: typeof port === 'string' ? port : undefined, servers: options.dns?.servers }, signal);
}

function toJson(
  target: string,
  { api, dns, namespace, use, connections, clusterIPs, http2, process }: Facts,
  { outcome, summary, todo }: Diagnosis,
): object {
  const endpoints = use.endpoints?.map(({ address, port, uid, name, zone, nodeName, conditions }) => ({
    address,
    port,
    uid,
    name,
    zone,
    nodeName,
    ...conditions,
  }));
  return {
    target,
    outcome,
    summary,
    exitCode: exitCodes[outcome],
    api,
    dns,
    namespace,
    use: { ...use, endpoints },
    connections,
    clusterIPs,
    http2,
    process,
    todo,
  };
}
