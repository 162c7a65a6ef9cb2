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

/** A Service and one of its ports: by the number of the Service's port, or by name. */
export interface DiscoveryService {
  readonly service: string;
  readonly namespace: string | undefined;
  readonly port: number | string;
}

/**
 * Makes the resolver that watches EndpointSlices, or says why there is none here. `onSlices` gets the number of slices before the set made
 * of them is published: an empty set without any slice may mean that the name is not a Service.
 */
export type SliceMode = (service: DiscoveryService, onSlices: (count: number) => void) => Promise<Resolver | string>;

/**
 * How long a refusal by the API server must last, in ms, before a working set is replaced by one from DNS: authorizers fail briefly too,
 * and every change of mode reopens all connections.
 */
const REFUSAL_LASTS_MS = 30_000;
/** How long after its first EndpointSlice, in ms, a Service may have no endpoints before it counts as empty. */
const FIRST_SLICE_MS = 1_000;
/**
 * How long, in ms, "nothing so far" from DNS waits for what the API server says of the Service, if the Service has no slice: one name that
 * does not exist would otherwise be reported as two failures, with a recovery between them.
 */
const SERVICE_ANSWER_MS = 1_000;

/** What a discovery needs: its target, and how each mode is used. */
export interface DiscoveryOptions extends DnsModeOptions {
  readonly slices: SliceMode;
  /** How long the API server may take to answer before DNS is tried too, in ms. */
  readonly sliceGraceMs: number;
}

/**
 * Finds the endpoints of a plain target in the best way: a watch of EndpointSlices, otherwise headless DNS, otherwise the Service's single
 * address with several short-lived connections. Reports through `discoveryChanged` which mode is used, why, and what would be better;
 * switches when a better mode works. Losing a mode never empties the set: what was published stays until another mode has endpoints.
 */
export function discovery(options: DiscoveryOptions): Resolver {
  return {
    name: options.target,
    watch: (listener, context) => new DiscoveryWatch(options, listener, context),
  };
}

/** Where a discovery stands. */
export interface DiscoveryPhase {
  /** The mode whose set was published last. */
  readonly published: 'nothing' | DiscoveryMode;
  /** The modes from which further sets are expected. */
  readonly follows: 'nothing' | 'slices' | 'slices and DNS' | 'DNS';
}

/** What a discovery waits for; it waits for one of these at a time. */
type Awaited =
  /** Waits for the first answer of the API server, for `sliceGraceMs`. */
  | 'slices'
  /** Waits for the endpoints of a Service whose first slice was seen, for `FIRST_SLICE_MS`. */
  | 'first endpoints'
  /** Waits for a refusal by the API server to turn out to last, for `REFUSAL_LASTS_MS`. */
  | 'lasting refusal'
  /** Waits for what the API server says of the Service that DNS does not know so far, for `SERVICE_ANSWER_MS`. */
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
 *   E     | slices          | slices         | the API refuses for `REFUSAL_LASTS_MS`: F, and its last set stays
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
  /** The last failure of DNS; undefined if DNS answers, or is not queried. */
  #dnsError: ResolveError | undefined;
  #wait: { readonly until: Awaited; readonly timer: Timer } | undefined;
  #isClosed = false;
  #names: ClusterNames | undefined;
  /** What is known about the first discovery mode, the watch of EndpointSlices. */
  #finding: Finding = { kind: 'silent' };
  /** Why there is nothing to find for this target, while that is certain. */
  #hopeless: ResolveError | undefined;
  /** Whether the name is known to be a Service: once a slice was seen it is, and no slices mean an empty Service. */
  #isService = false;
  /** The last set from the slice watch: the watch may recover without repeating the set. */
  #sliceEndpoints: readonly Endpoint[] | undefined;

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

  refresh(): void {
    this.#slices?.refresh();
    this.#dns?.refresh();
  }

  close(): void {
    this.#isClosed = true;
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
          update: (endpoints) => this.#sliceUpdate(endpoints),
          fail: (error) => this.#sliceFail(error),
          fresh: () => this.#sliceFresh(),
        },
        this.#context,
      );
    } catch (error) {
      if (this.#isClosed) return;
      // A wrong option of the watch is a mistake that a lower mode would only hide.
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
    // A set that counted as "none" for lack of slices may still be right; the watch does not publish it again.
    const endpoints = this.#sliceEndpoints;
    if (endpoints !== undefined) this.#waitFor('first endpoints', FIRST_SLICE_MS, () => this.#climb(endpoints));
  }

  #sliceUpdate(endpoints: readonly Endpoint[]): void {
    this.#sliceEndpoints = endpoints;
    if (this.#isService || endpoints.length > 0) this.#climb(endpoints);
  }

  #sliceFresh(): void {
    if (this.#sliceEndpoints === undefined || !this.#isService) return;
    if (this.#mode !== 'slices') {
      this.#climb(this.#sliceEndpoints);
      return;
    }
    // The API server allows the slice watch again, and its set is unchanged.
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

  /** The slice watch failed. An unavailable API server changes nothing (W15). A refusal lasts, and DNS would know more over time. */
  #slicesLost(error: ResolveError): void {
    this.#finding = { kind: 'failed', error };
    this.#report.fail(error);
    // A mistake in the target affects every mode.
    if (!error.permanent || error instanceof WrongTarget) return;
    this.#waitFor('lasting refusal', REFUSAL_LASTS_MS, () => this.#descend(this.#finding));
  }

  /** The cluster does not have the Service or the port that the target names. */
  #wrong(error: WrongTarget): void {
    if (error.part === 'port') {
      // DNS does not know ports by number: it would return an address where nothing listens on this port.
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
   * DNS has nothing either, and there is a reason not to wait until DNS has confirmed that (D7): the set is empty, with the reason. If the
   * API server refuses us, DNS is all there is, and calls must not wait for a misspelt name; they make DNS look again.
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
    this.#report.publish('slices', endpoints, this.#known);
  }

  /** Uses DNS in addition to the slice watch, unless DNS is already in use. */
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
    // "No such name" from DNS does not outweigh what the slices said before they were lost.
    if (this.#mode === 'slices' && isEmpty) return;
    // The set is already known to be empty, and the reason was published with it.
    if (isEmpty && this.#saysHopeless) return;
    // Pods at a guessed port do not outweigh the slices either: not all pods have that port.
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
      // If a slice came meanwhile, that is the answer.
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

  /** The pods' ports in the last slices, for when the slices are lost. */
  get #podPorts(): ReadonlySet<number> {
    return new Set(this.#sliceEndpoints?.map(({ port }) => port));
  }

  /** Whether the last report said that there is nothing to find. */
  get #saysHopeless(): boolean {
    return this.#hopeless !== undefined && this.#report.error === this.#hopeless;
  }

  /** No mode has ever found anything: reports a failure with the problem of each. */
  #failWithoutAny(): void {
    if (this.#dnsError === undefined || this.#mode !== undefined) return;
    const error = withoutAnyError(this.#options.target, this.#finding, this.#dnsError);
    if (error.message !== this.#report.error?.message) this.#report.fail(error);
  }

  /** Calls `act` once the time is over, unless the discovery waits for something else by then. A wait that has begun is not prolonged. */
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
