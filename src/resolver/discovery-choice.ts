import type { Endpoint } from '../endpoint/endpoint.js';
import type { ResolveError } from '../errors.js';
import type { ClusterNames } from './cluster-domain.js';
import {
  type DiscoveryMode,
  type Finding,
  outsideError,
  refusalOf,
  refusedError,
  withoutAnyError,
} from './discovery-advice.js';
import { type DnsModeOptions, isSlots } from './dns-mode.js';
import { NothingSoFar } from './polling.js';
import { nothingYet, type Resolved } from './resolved.js';
import { LeftToDns, WrongTarget } from './wrong-target.js';

/**
 * How long the API server must refuse access before a working set is replaced by one from DNS, in ms. Refusals are sometimes brief, and
 * every change from one way to the other opens all connections anew. The watch asks a server that refused it again after at most a minute,
 * so by then another request was refused, too: a server that allows lists but no watch, or that is away by now, has not refused twice.
 */
const REFUSAL_LASTS_MS = 65_000;
/** How long a Service may have no endpoints after its first EndpointSlice appeared, in ms. After that it counts as empty. */
const FIRST_SLICE_MS = 1_000;
/**
 * If the Service has no slice and DNS has not found anything yet, how long to wait for the API server to say whether the Service exists,
 * in ms. Without the wait, a name that does not exist would be reported as two failures with a recovery between them.
 */
const SERVICE_ANSWER_MS = 1_000;

/** The target of a discovery, and what is needed for each way to find its endpoints. */
export interface ChoiceOptions extends DnsModeOptions {
  /** How long the API server may take to answer before DNS is queried, too, in ms. */
  readonly sliceGraceMs: number;
}

/** What a discovery knows. */
export interface Known {
  readonly names: ClusterNames | undefined;
  /** Why EndpointSlices are not watched at all; undefined if they are. */
  readonly unwatched: Finding | undefined;
  /** What the watch of EndpointSlices says. */
  readonly slices: Resolved;
  /** How many slices the API server has of the Service; undefined before its first answer. */
  readonly sliceCount: number | undefined;
  /** Whether the name is known to be a Service, because a slice of it was seen. From then on, no slices mean that the Service is empty. */
  readonly isService: boolean;
  /** Whether the watch has said nothing since the first slice appeared. Its empty set may be that of a Service that did not exist yet. */
  readonly isFirstSlice: boolean;
  /** Whether no endpoint of the last set could be connected to, since the watch failed. */
  readonly reachesNone: boolean;
  /** What DNS says; undefined while it is not queried. */
  readonly dns: Resolved | undefined;
  /** The wait that is over, of those that the last choice asked for. */
  readonly waitedFor: Awaited | undefined;
}

/** What a discovery waits for. It waits for one of these at a time. */
export type Awaited =
  /** The first answer of the API server. */
  | 'slices'
  /** The endpoints of a Service whose first slice has appeared. */
  | 'first endpoints'
  /** Whether a refusal by the API server lasts. */
  | 'lasting refusal'
  /** That the API server says whether a Service exists that DNS does not know. */
  | 'service';

/** What a discovery does about what it knows. */
export interface Choice {
  /** How the endpoints were found; undefined if none were, ever. */
  readonly mode: DiscoveryMode | undefined;
  /** What to publish. */
  readonly state: Resolved;
  /** Whether that says that there is nothing to find. Nothing else is said until that has changed. */
  readonly isHopeless: boolean;
  readonly needsDns: boolean;
  /** What to wait for, and for how long at most, before choosing again with the same knowledge. */
  readonly wait: { readonly until: Awaited; readonly ms: number } | undefined;
}

/** The choice of a discovery that knows nothing yet. */
export const nothingChosen: Choice = Object.freeze({
  mode: undefined,
  state: nothingYet,
  isHopeless: false,
  needsDns: false,
  wait: undefined,
});

/** Returns what is known about the best way to find endpoints, a watch of EndpointSlices. */
export function findingOf({ unwatched, slices, sliceCount, isService }: Known): Finding {
  const { endpoints, error } = slices;
  if (unwatched !== undefined) return unwatched;
  if (error !== undefined) return isWrong(error, 'service') ? { kind: 'missing', error } : { kind: 'failed', error };
  if (sliceCount === 0 && !isService) return { kind: 'absent' };
  return endpoints === undefined ? { kind: 'silent' } : { kind: 'watching' };
}

/**
 * Chooses what a discovery publishes and whether it queries DNS. A phase is what is published and what is followed. This function leads
 * from one line of the table to another, or stays where it is:
 *
 *   phase | published       | follows        | ways on
 *   ------+-----------------+----------------+-------------------------------------------------------------------------------
 *   A     | nothing         | nothing        | the name may be a Service's: B. It cannot, or there is no API server: D
 *   B     | nothing         | slices         | slices come: E. `sliceGraceMs` without any, a refusal, no slice, a failure: C
 *   C     | nothing         | slices and DNS | DNS finds any, or both say that there is nothing: G. Slices come: E.
 *         |                 |                | The Service has no such port: B
 *   D     | nothing         | DNS            | DNS finds any, or says that there is nothing: H
 *   E     | slices          | slices         | the API refuses for `REFUSAL_LASTS_MS` on end, or it fails and no endpoint can be
 *         |                 |                | connected to, or the Service is left to DNS: F, and its last set stays
 *   F     | slices          | slices and DNS | the API allows it again: E. DNS finds any: G
 *   G     | dns, name       | slices and DNS | slices come: E
 *   H     | dns, name       | DNS            | for good: there is nothing above it
 */
export function choose(options: ChoiceOptions, known: Known, last: Choice): Choice {
  const { slices, waitedFor } = known;
  const wait = waitOf(options, known, last);
  const isOver = wait !== undefined && wait.until === waitedFor;
  const isNew = known.isFirstSlice && !isOver;
  const areUsable =
    slices.error === undefined && (hasAny(slices) || (slices.endpoints !== undefined && known.isService && !isNew));
  if (areUsable) return { mode: 'slices', state: slices, isHopeless: false, needsDns: false, wait: undefined };
  const isLost = slices.error instanceof LeftToDns || (known.reachesNone && !(slices.error instanceof WrongTarget));
  const needsDns =
    known.dns !== undefined || isOver || isLost || (last.mode === undefined && findingOf(known).kind !== 'silent');
  const now = { ...last, needsDns, wait };
  // DNS knows nothing about ports, and would return addresses where nothing listens on this port.
  if (last.mode === undefined && isWrong(slices.error, 'port'))
    return { ...now, needsDns: false, state: { ...last.state, error: slices.error } };
  if (canUseDns(options, known, last)) return fromDns(known, now);
  if (last.mode === 'slices') return { ...now, state: { ...last.state, error: slices.error } };
  return last.mode === undefined ? withoutAny(options, known, now, isOver) : withEmptyDns(known, now);
}

/** What the discovery waits for. */
function waitOf({ sliceGraceMs }: ChoiceOptions, known: Known, last: Choice): Choice['wait'] {
  const { slices, dns, isFirstSlice } = known;
  const { error } = slices;
  if (isFirstSlice && error === undefined && slices.endpoints !== undefined)
    return { until: 'first endpoints', ms: FIRST_SLICE_MS };
  // If the API server is just unavailable, the last set stays in use while any endpoint of it can be connected to, also if the server
  // refused access before: whether it still does is not known, and DNS, which learns of pods from the same server, knows no more. If it
  // refuses access, that probably lasts, and after a while DNS knows more than the last set. A target that names a wrong Service or port is
  // just as wrong for DNS.
  if (last.mode === 'slices')
    return error?.permanent && !(error instanceof WrongTarget)
      ? { until: 'lasting refusal', ms: REFUSAL_LASTS_MS }
      : undefined;
  if (last.mode !== undefined) return undefined;
  const { kind } = findingOf(known);
  if (kind === 'silent' && dns === undefined) return { until: 'slices', ms: sliceGraceMs };
  if (kind === 'absent' && dns?.error instanceof NothingSoFar) return { until: 'service', ms: SERVICE_ANSWER_MS };
  return undefined;
}

/** Whether DNS has found endpoints that are better than what is published. */
function canUseDns({ port }: ChoiceOptions, { slices, dns }: Known, last: Choice): boolean {
  if (!hasAny(dns)) return false;
  // DNS has the pods but not their ports, and the pods have different ones. The last set from the slices is more reliable than a guess.
  return last.mode !== 'slices' || typeof port === 'string' || podPorts(slices).size < 2 || isSlots(dns.endpoints);
}

function fromDns({ slices, dns = nothingYet }: Known, now: Choice): Choice {
  const { endpoints = [], error } = dns;
  const state = { endpoints, emptyBecause: undefined, error: isWrong(slices.error, 'port') ? slices.error : error };
  return { ...now, mode: isSlots(endpoints) ? 'name' : 'dns', state, isHopeless: false };
}

/** No way has ever found anything. */
function withoutAny(options: ChoiceOptions, known: Known, now: Choice, isOver: boolean): Choice {
  const { dns } = known;
  if (dns?.endpoints !== undefined) return withEmptyDns(known, { ...now, mode: 'dns' });
  if (dns?.error === undefined) return now;
  const finding = findingOf(known);
  const { target } = options;
  if (dns.error instanceof NothingSoFar) {
    // There is no point in waiting until DNS has confirmed that. If the API server refuses, for example, there is only DNS, and requests to
    // a misspelt name should not have to wait. They make DNS look again.
    const error =
      missing(finding) ?? outsideError(options, known.names, finding) ?? refusedError(target, finding, dns.error);
    if (error !== undefined)
      return { ...now, mode: 'dns', state: { endpoints: [], emptyBecause: undefined, error }, isHopeless: true };
  }
  if (now.wait !== undefined && !isOver) return now;
  return { ...now, state: { ...nothingYet, error: withoutAnyError(target, finding, dns.error) } };
}

/** DNS is used and has no endpoints, or has not answered since the set was published. */
function withEmptyDns(known: Known, now: Choice): Choice {
  const { slices, dns } = known;
  const finding = findingOf(known);
  const mayStay = now.isHopeless && (finding.kind === 'failed' || finding.kind === 'unavailable');
  const hopeless = missing(finding) ?? (mayStay ? now.state.error : undefined);
  const error = isWrong(slices.error, 'port') ? slices.error : (hopeless ?? dns?.error);
  const isHopeless = hopeless !== undefined;
  // The set is already published as empty, together with the reason.
  if (dns?.endpoints === undefined || (isHopeless && now.state.endpoints?.length === 0))
    return { ...now, isHopeless, state: { ...now.state, error } };
  const emptyBecause = dns.emptyBecause && [dns.emptyBecause, refusalOf(finding)].filter(Boolean).join('; ');
  return { ...now, isHopeless, state: { endpoints: [], emptyBecause, error } };
}

/** The ports of the pods in a set; none if DNS does not lead to them. */
export function podPorts({ endpoints = [], error }: Resolved): ReadonlySet<number> {
  return new Set(error instanceof LeftToDns ? [] : endpoints.map(({ port }) => port));
}

function hasAny(resolved: Resolved | undefined): resolved is Resolved & { readonly endpoints: readonly Endpoint[] } {
  return resolved?.endpoints !== undefined && resolved.endpoints.length > 0;
}

function isWrong(error: ResolveError | undefined, part: 'service' | 'port'): error is WrongTarget {
  return error instanceof WrongTarget && error.part === part;
}

function missing(finding: Finding): ResolveError | undefined {
  return finding.kind === 'missing' ? finding.error : undefined;
}
