import type { Endpoint } from '../endpoint/endpoint.js';
import { asError, isEvenkeelError, ResolveError } from '../errors.js';
import type { Timer } from '../runtime/clock.js';
import { type ClusterNames, clusterNames, serviceOf } from './cluster-domain.js';
import {
  type DiscoveryMode,
  type Finding,
  outsideError,
  refusalOf,
  refusedError,
  withoutAnyError,
} from './discovery-advice.js';
import { type DiscoveryKnowledge, DiscoveryReport } from './discovery-report.js';
import { type DnsModeOptions, dnsMode } from './dns-mode.js';
import { NothingSoFar } from './polling.js';
import type { Resolution, Resolver, ResolverContext, ResolverListener } from './resolver.js';
import { isSlots } from './single-address.js';
import { WrongTarget } from './wrong-target.js';

/** A Service and one of its ports, given by the Service's port number or by the port's name. */
export interface DiscoveryService {
  readonly service: string;
  readonly namespace: string | undefined;
  readonly port: number | string;
}

/**
 * Creates the resolver that watches EndpointSlices, or returns a text that says why that is not possible here. `onSlices` is called with
 * the number of slices before the set is published, because an empty set without any slice may mean that there is no such Service.
 */
export type SliceMode = (service: DiscoveryService, onSlices: (count: number) => void) => Promise<Resolver | string>;

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
export interface DiscoveryOptions extends DnsModeOptions {
  readonly slices: SliceMode;
  /** How long the API server may take to answer before DNS is queried, too, in ms. */
  readonly sliceGraceMs: number;
}

/**
 * Finds the endpoints of a plain target in the best way that works: a watch of EndpointSlices; otherwise DNS, which has the pods of a
 * headless Service; otherwise the single address of the Service, with several connections that are replaced from time to time. The event
 * `discoveryChanged` says which way is used, why, and what would allow a better one. If a better way becomes possible, it is used from then
 * on. The published set stays in use until another way has found endpoints.
 */
export function discovery(options: DiscoveryOptions): Resolver {
  return {
    name: options.target,
    watch: (listener, context) => new DiscoveryWatch(options, listener, context),
  };
}

/** What a discovery has published, and where it expects further endpoints from. */
export interface DiscoveryPhase {
  /** How the endpoints were found that were published last. */
  readonly published: 'nothing' | DiscoveryMode;
  /** Where further sets may come from. */
  readonly follows: 'nothing' | 'slices' | 'slices and DNS' | 'DNS';
}

/** What a discovery waits for. It waits for one of these at a time. */
type Awaited =
  /** Waits at most `sliceGraceMs` for the first answer of the API server. */
  | 'slices'
  /** Waits at most `FIRST_SLICE_MS` for the endpoints of a Service whose first slice has appeared. */
  | 'first endpoints'
  /** Waits `REFUSAL_LASTS_MS` to see whether a refusal by the API server lasts. */
  | 'lasting refusal'
  /** Waits at most `SERVICE_ANSWER_MS` for the API server to say whether a Service exists that DNS does not know. */
  | 'service';

/**
 * Finds a Service by the best mode that is allowed, and changes the mode when that changes. Its phase is what it has published and what it
 * follows; every method is a way from one line of this table to another, or stays where it is:
 *
 *   phase | published       | follows        | ways on
 *   ------+-----------------+----------------+-------------------------------------------------------------------------------
 *   A     | nothing         | nothing        | the name may be a Service's: B. It cannot, or there is no API server: D
 *   B     | nothing         | slices         | slices come: E. `sliceGraceMs` without any, a refusal, no slice, a failure: C
 *   C     | nothing         | slices and DNS | DNS finds any, or both say that there is nothing: G. Slices come: E.
 *         |                 |                | The Service has no such port: B
 *   D     | nothing         | DNS            | DNS finds any, or says that there is nothing: H
 *   E     | slices          | slices         | the API refuses for `REFUSAL_LASTS_MS` on end: F, and its last set stays
 *   F     | slices          | slices and DNS | the API allows it again: E. DNS finds any: G
 *   G     | dns, name       | slices and DNS | slices come: E
 *   H     | dns, name       | DNS            | for good: there is nothing above it
 */
export class DiscoveryWatch implements Resolution {
  readonly #options: DiscoveryOptions;
  readonly #context: ResolverContext;
  readonly #report: DiscoveryReport;
  #slices: Resolution | undefined;
  #dns: Resolution | undefined;
  /** The last failure of DNS; undefined if DNS answers or is not queried. */
  #dnsError: ResolveError | undefined;
  #wait: { readonly until: Awaited; readonly timer: Timer } | undefined;
  #isClosed = false;
  #names: ClusterNames | undefined;
  /** What is known about the best way to find endpoints, a watch of EndpointSlices. */
  #finding: Finding = { kind: 'silent' };
  /** The error that there is nothing to find for this target; set while that is certain. */
  #hopeless: ResolveError | undefined;
  /**
   * Whether the name is known to be a Service, because a slice of it was seen. From then on, no slices mean that the Service is empty.
   */
  #isService = false;
  /** The last set from the watch of EndpointSlices. The watch may recover from a failure without publishing the set again. */
  #sliceEndpoints: readonly Endpoint[] | undefined;
  /** Why that set is empty, in words. */
  #sliceReason: string | undefined;

  constructor(options: DiscoveryOptions, listener: ResolverListener, context: ResolverContext) {
    this.#options = options;
    this.#context = context;
    this.#report = new DiscoveryReport(options, listener, context.observer);
    void this.#start();
  }

  get phase(): DiscoveryPhase {
    const follows = [this.#slices && 'slices', this.#dns && 'DNS'].filter(Boolean).join(' and ') || 'nothing';
    return { published: this.#mode ?? 'nothing', follows: follows as DiscoveryPhase['follows'] };
  }

  refresh(failingSinceMs?: number): void {
    this.#slices?.refresh(failingSinceMs);
    this.#dns?.refresh();
  }

  close(): void {
    this.#isClosed = true;
    this.#report.close();
    this.#stopWaiting();
    this.#slices?.close();
    this.#dns?.close();
  }

  async #start(): Promise<void> {
    const { host, port, slices, dns, sliceGraceMs } = this.#options;
    try {
      this.#names = await clusterNames(dns);
      if (this.#isClosed) return;
      const service = serviceOf(host, this.#names);
      if (service === undefined) return this.#descend({ kind: 'no-service' });
      const resolver = await slices({ ...service, port }, (count) => this.#sliceCount(count));
      if (typeof resolver === 'string') return this.#descend({ kind: 'unavailable', reason: resolver });
      if (this.#isClosed) return;
      this.#waitFor('slices', sliceGraceMs, () => this.#descend(this.#finding));
      this.#slices = resolver.watch(
        {
          update: (endpoints, reason) => this.#sliceUpdate(endpoints, reason),
          fail: (error) => this.#sliceFail(error),
          fresh: () => this.#sliceFresh(),
        },
        this.#context,
      );
    } catch (error) {
      if (this.#isClosed) return;
      // An invalid option of the watch is a mistake in the program. If DNS were used instead, nobody would notice.
      if (isEvenkeelError(error, 'EVENKEEL_OPTION')) {
        const message = `${this.#options.target}: ${error.message}`;
        this.#report.fail(new ResolveError(message, { permanent: true, cause: error }));
      } else this.#descend({ kind: 'failed', error: asError(error) });
    }
  }

  #sliceCount(count: number): void {
    if (this.#isClosed || this.#isService) return;
    if (count === 0) {
      this.#descend({ kind: 'absent' });
      return;
    }
    this.#isService = true;
    this.#hopeless = undefined;
    // The last set may still be right although it was ignored for lack of slices. The watch does not publish it again, so this does.
    const endpoints = this.#sliceEndpoints;
    if (endpoints !== undefined) this.#waitFor('first endpoints', FIRST_SLICE_MS, () => this.#climb(endpoints));
  }

  #sliceUpdate(endpoints: readonly Endpoint[], reason: string | undefined): void {
    this.#sliceEndpoints = endpoints;
    this.#sliceReason = reason;
    if (this.#isService || endpoints.length > 0) this.#climb(endpoints);
  }

  #sliceFresh(): void {
    if (this.#sliceEndpoints === undefined || !this.#isService) return;
    if (this.#mode !== 'slices') {
      this.#climb(this.#sliceEndpoints);
      return;
    }
    // The API server allows the watch again, and the set has not changed.
    this.#stopWaiting();
    this.#stopDns();
    this.#report.confirm();
  }

  #sliceFail(error: ResolveError): void {
    if (this.#mode === 'slices') this.#slicesLost(error);
    else if (error instanceof WrongTarget) this.#wrong(error);
    else {
      this.#descend({ kind: 'failed', error });
      if (this.#mode !== undefined) return;
      this.#giveUp();
      this.#failWithoutAny();
    }
  }

  /**
   * The watch of EndpointSlices failed. If the API server is just unavailable, the last set stays in use, also if the server refused access
   * before: whether it still does is not known, and DNS, which learns of pods from the same server, knows no more. If it refuses access,
   * that probably lasts, and after a while DNS knows more than the last set.
   */
  #slicesLost(error: ResolveError): void {
    this.#finding = { kind: 'failed', error };
    this.#report.fail(error);
    // A target that names a wrong Service or port is just as wrong for DNS.
    if (error instanceof WrongTarget) return;
    if (!error.permanent) {
      if (this.#wait?.until === 'lasting refusal') this.#stopWaiting();
      return;
    }
    this.#waitFor('lasting refusal', REFUSAL_LASTS_MS, () => this.#descend(this.#finding));
  }

  /** The cluster does not have the Service, or the Service does not have the port, that the target names. */
  #wrong(error: WrongTarget): void {
    if (error.part === 'port') {
      // DNS is not used: it knows nothing about ports, and would return addresses where nothing listens on this port.
      this.#finding = { kind: 'failed', error };
      this.#stopWaiting();
      if (this.#mode === undefined) this.#stopDns();
      this.#report.fail(error);
      return;
    }
    this.#hopeless = error;
    this.#descend({ kind: 'missing', error });
    if (this.#mode === undefined) this.#giveUp();
    else if (this.#report.isEmpty) this.#report.fail(error);
  }

  /**
   * Publishes an empty set with the reason, if DNS has found nothing either and there is no point in waiting until DNS has confirmed
   * that. One such case is a refusal by the API server: then there is only DNS, and requests to a misspelt name should not have to wait.
   * They make DNS look again.
   */
  #giveUp(): void {
    if (!(this.#dnsError instanceof NothingSoFar)) return;
    this.#hopeless ??= refusedError(this.#options.target, this.#finding, this.#dnsError);
    if (this.#hopeless === undefined) return;
    this.#report.publish('dns', [], this.#known);
    this.#report.fail(this.#hopeless);
  }

  #climb(endpoints: readonly Endpoint[]): void {
    this.#stopWaiting();
    this.#stopDns();
    this.#report.publish('slices', endpoints, this.#known, this.#sliceReason);
  }

  /** Starts to query DNS in addition to watching EndpointSlices, unless that has already begun. */
  #descend(finding: Finding): void {
    this.#finding = finding;
    if (this.#wait?.until === 'slices') this.#stopWaiting();
    if (this.#isClosed) return;
    if (this.#dns !== undefined) {
      this.#report.learned(this.#known);
      return;
    }
    this.#dns = dnsMode(this.#options, this.#names, () => this.#podPorts).watch(
      {
        update: (endpoints, reason) => this.#dnsUpdate(endpoints, reason),
        fail: (error) => this.#dnsFail(error),
        fresh: () => this.#dnsFresh(),
      },
      this.#context,
    );
  }

  #stopDns(): void {
    this.#dns?.close();
    this.#dns = undefined;
    this.#dnsError = undefined;
  }

  #dnsUpdate(endpoints: readonly Endpoint[], reason: string | undefined): void {
    this.#dnsError = undefined;
    const isEmpty = endpoints.length === 0;
    // If slices were watched before, their last set is more reliable than "no such name" from DNS.
    if (this.#mode === 'slices' && isEmpty) return;
    // The set is already published as empty, together with the reason.
    if (isEmpty && this.#saysHopeless) return;
    // DNS has the pods but not their ports, and the pods have different ones. The last set from the slices is more reliable than a
    // guess.
    const isGuessed = typeof this.#options.port === 'number' && this.#podPorts.size > 1 && !isSlots(endpoints);
    if (this.#mode === 'slices' && isGuessed) return;
    if (!isEmpty) this.#hopeless = undefined;
    const found = isSlots(endpoints) ? 'name' : 'dns';
    const mode = isEmpty ? (this.#mode ?? found) : found;
    const reasons = reason && [reason, refusalOf(this.#finding)].filter(Boolean).join('; ');
    this.#report.publish(mode, endpoints, this.#known, reasons);
  }

  #dnsFail(error: ResolveError): void {
    this.#dnsError = error;
    if (this.#mode === undefined) {
      this.#hopeless ??= outsideError(this.#options, this.#names, this.#finding);
      this.#giveUp();
    }
    if (this.#mode !== undefined) {
      if (this.#mode !== 'slices' && !this.#saysHopeless) this.#report.fail(error);
    } else if (error instanceof NothingSoFar && this.#finding.kind === 'absent') {
      // If a slice has appeared meanwhile, the Service exists, and there is nothing to wait for.
      if (!this.#isService) this.#waitFor('service', SERVICE_ANSWER_MS, () => this.#failWithoutAny());
    } else this.#failWithoutAny();
  }

  #dnsFresh(): void {
    this.#dnsError = undefined;
    if (this.#mode !== 'slices' && !this.#saysHopeless) this.#report.confirm();
  }

  get #mode(): DiscoveryMode | undefined {
    return this.#report.mode;
  }

  get #known(): DiscoveryKnowledge {
    return { finding: this.#finding, names: this.#names };
  }

  /** The ports of the pods in the last set from the slices, for the case that DNS is needed later. */
  get #podPorts(): ReadonlySet<number> {
    return new Set(this.#sliceEndpoints?.map(({ port }) => port));
  }

  /** Whether the last failure reported was that there is nothing to find. */
  get #saysHopeless(): boolean {
    return this.#hopeless !== undefined && this.#report.error === this.#hopeless;
  }

  /** Reports a failure that names the problem of each way, if none has ever found anything. */
  #failWithoutAny(): void {
    if (this.#dnsError === undefined || this.#mode !== undefined) return;
    this.#report.fail(withoutAnyError(this.#options.target, this.#finding, this.#dnsError));
  }

  /**
   * Calls `act` after `durationMs`, unless the discovery starts to wait for something else before. If it already waits for the same
   * thing, that wait goes on unchanged.
   */
  #waitFor(until: Awaited, durationMs: number, act: () => void): void {
    if (this.#wait?.until === until) return;
    this.#stopWaiting();
    this.#wait = { until, timer: this.#context.clock.timer(act, durationMs) };
  }

  #stopWaiting(): void {
    this.#wait?.timer.cancel();
    this.#wait = undefined;
  }
}
