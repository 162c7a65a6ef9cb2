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
import { DiscoveryNews } from './discovery-news.js';
import { type DnsModeOptions, dnsMode } from './dns-mode.js';
import { NothingSoFar } from './polling.js';
import type { Resolution, Resolver, ResolverContext, ResolverListener } from './resolver.js';
import { isSlots } from './single-address.js';
import { WrongTarget } from './wrong-target.js';

/** A Service and one of its ports: by number (S11) or by name. */
export interface DiscoveryService {
  readonly service: string;
  readonly namespace: string | undefined;
  readonly port: number | string;
}

/**
 * Makes the resolver of the first mode, or says why there is none here. `onSlices` gets the number of slices before the set made of
 * them is published: an empty set without any slice may mean that the name is not a Service.
 */
export type SliceMode = (service: DiscoveryService, onSlices: (count: number) => void) => Promise<Resolver | string>;

/**
 * How long a refusal must last before a working set is replaced by one from DNS: authorizers fail briefly too, and every change of
 * mode reopens all connections.
 */
const REFUSAL_LASTS_MS = 30_000;
/** How long after its first slice a Service may have no endpoints before it counts as empty. */
const FIRST_SLICE_MS = 1_000;
/**
 * How long "nothing so far" from DNS waits for what the API server says of the Service, if that has no slice: one name that does not
 * exist is otherwise told as two failures, with a recovery between them.
 */
const SERVICE_ANSWER_MS = 1_000;

/** The parts of a discovery. */
export interface DiscoveryOptions extends DnsModeOptions {
  readonly slices: SliceMode;
  /** How long the first mode may take to answer before the second is tried too, in ms. */
  readonly sliceGraceMs: number;
}

/**
 * Finds the best way: a watch of EndpointSlices, otherwise headless DNS, otherwise the Service's single address with several
 * short-lived connections. Reports through `discoveryChanged` which mode is used, why, and what would be better; switches when a
 * better mode works. Losing a mode never empties the set: what was published stays until another mode has endpoints.
 */
export function discovery(options: DiscoveryOptions): Resolver {
  return {
    name: options.target,
    watch: (listener, context) => new DiscoveryWatch(options, listener, context),
  };
}

/**
 * Finds a Service by the best mode that is allowed, and changes the mode when that changes. What it has published (`#mode`) and what it
 * follows are its state; every method is a way from one line of this table to another:
 *
 *   published       | follows        | until
 *   ----------------+----------------+-------------------------------------------------------------------------------------
 *   nothing         | slices         | slices come: "slices". `sliceGraceMs` without any, a refusal, no slice, a failure: DNS too
 *   nothing         | slices and DNS | DNS finds pods: "dns"; only the Service's address: "name". Slices come: "slices".
 *                   |                | Both say there is nothing: "dns", empty, with the reason
 *   nothing         | DNS            | (no API server, or the name of no Service) DNS finds any: "dns" or "name"
 *   "slices"        | slices         | the API refuses for `REFUSAL_LASTS_MS`: DNS too; its last set stays until DNS finds any
 *   "slices"        | slices and DNS | the API allows again: "slices". DNS finds any: "dns" or "name"
 *   "dns" or "name" | slices and DNS | slices come: "slices", and DNS is no longer asked
 *   "dns" or "name" | DNS            | for good: there is nothing above it
 *
 * `#finding` is what is known of the mode above; `#hopeless` is set while it is certain that there is nothing to find.
 */
class DiscoveryWatch implements Resolution {
  readonly #options: DiscoveryOptions;
  readonly #listener: ResolverListener;
  readonly #context: ResolverContext;
  readonly #news: DiscoveryNews;
  #slices: Resolution | undefined;
  #dns: Resolution | undefined;
  #grace: Timer | undefined;
  #emptyTimer: Timer | undefined;
  /** Runs from a refusal until the refusal counts as lasting. */
  #leaving: Timer | undefined;
  /** Runs from DNS's "nothing so far" until that is reported. */
  #holding: Timer | undefined;
  /** Once a slice was seen, the name is a Service, and no slices mean an empty Service. */
  #seenSlice = false;
  #closed = false;
  #mode: DiscoveryMode | undefined;
  /** The last set from the slice watch, for when it recovers without repeating it. */
  #sliceEndpoints: readonly Endpoint[] | undefined;
  /** The pods' ports in the last slices, after the slices are lost. */
  #podPorts: ReadonlySet<number> = new Set();
  /** What is known about the first mode. */
  #finding: Finding = { kind: 'silent' };
  /** How many endpoints were last published. */
  #count = 0;
  #dnsError: ResolveError | undefined;
  /** The last failure reported; undefined while the set is fresh. */
  #reportedError: ResolveError | undefined;
  #names: ClusterNames | undefined;
  /** Why there is nothing to find, if that is certain. */
  #hopeless: ResolveError | undefined;

  constructor(options: DiscoveryOptions, listener: ResolverListener, context: ResolverContext) {
    this.#options = options;
    this.#listener = listener;
    this.#context = context;
    this.#news = new DiscoveryNews(options, context.observer);
    void this.#start();
  }

  refresh(): void {
    this.#slices?.refresh();
    this.#dns?.refresh();
  }

  close(): void {
    this.#closed = true;
    this.#cancelTimers();
    this.#slices?.close();
    this.#dns?.close();
  }

  async #start(): Promise<void> {
    const { host, port, slices, dns, sliceGraceMs } = this.#options;
    try {
      this.#names = await clusterNames(dns);
      if (this.#closed) return;
      const service = serviceOf(host, this.#names);
      if (service === undefined) return this.#descend({ kind: 'no-service' });
      const resolver = await slices({ ...service, port }, (count) => this.#sliceCount(count));
      if (typeof resolver === 'string') return this.#descend({ kind: 'unavailable', reason: resolver });
      if (this.#closed) return;
      this.#grace = this.#context.clock.timer(() => this.#descend(this.#finding), sliceGraceMs);
      this.#slices = resolver.watch(
        {
          update: (endpoints) => this.#sliceUpdate(endpoints),
          fail: (error) => this.#sliceFail(error),
          fresh: () => this.#sliceFresh(),
        },
        this.#context,
      );
    } catch (error) {
      if (this.#closed) return;
      // A wrong option is a mistake that a lower mode would only hide.
      if (isEvenkeelError(error, 'EVENKEEL_OPTION')) {
        this.#fail(new ResolveError(`${this.#options.target}: ${error.message}`, { permanent: true, cause: error }));
      } else this.#descend({ kind: 'failed', error: asError(error) });
    }
  }

  #sliceCount(count: number): void {
    if (this.#closed) return;
    if (count > 0 && !this.#seenSlice) {
      this.#seenSlice = true;
      this.#hopeless = undefined;
      // A set that counted as "none" for lack of slices may still be right, and is then not published again.
      const endpoints = this.#sliceEndpoints;
      if (endpoints !== undefined)
        this.#emptyTimer = this.#context.clock.timer(() => this.#climb(endpoints), FIRST_SLICE_MS);
    } else if (!this.#seenSlice) this.#descend({ kind: 'absent' });
  }

  #sliceUpdate(endpoints: readonly Endpoint[]): void {
    this.#sliceEndpoints = endpoints;
    if (this.#seenSlice || endpoints.length > 0) this.#climb(endpoints);
  }

  #sliceFresh(): void {
    if (this.#sliceEndpoints === undefined || !this.#seenSlice) return;
    this.#cancelTimers();
    this.#stopDns();
    // Otherwise the watch is allowed again and its set is unchanged.
    if (this.#mode === 'slices') this.#fresh();
    else this.#publish('slices', this.#sliceEndpoints);
  }

  #sliceFail(error: ResolveError): void {
    if (error instanceof WrongTarget && this.#mode !== 'slices') {
      this.#wrong(error);
      return;
    }
    this.#finding = { kind: 'failed', error };
    if (this.#mode === 'slices') {
      // W15: an unavailable API server changes nothing. A refusal lasts, and DNS would know more over time.
      this.#fail(error);
      // A mistake in the target affects every mode.
      if (!error.permanent || error instanceof WrongTarget) return;
      this.#podPorts = new Set(this.#sliceEndpoints?.map((endpoint) => endpoint.port));
      this.#leaving ??= this.#context.clock.timer(() => this.#descend(this.#finding), REFUSAL_LASTS_MS);
      return;
    }
    this.#descend(this.#finding);
    if (this.#mode !== undefined) return;
    this.#giveUp();
    this.#failWithoutAny();
  }

  /** The cluster does not have what the target names. */
  #wrong(error: WrongTarget): void {
    if (error.part === 'port') {
      // DNS does not know ports by number: it would name an address where nothing listens.
      this.#finding = { kind: 'failed', error };
      this.#cancelTimers();
      if (this.#mode === undefined) this.#stopDns();
      this.#fail(error);
      return;
    }
    this.#hopeless = error;
    this.#descend({ kind: 'missing', error });
    if (this.#mode === undefined) this.#giveUp();
    else if (this.#count === 0) this.#fail(error);
  }

  /**
   * Nothing in DNS either, and a reason not to wait for a second answer (D7): empty, with the reason. Where the API server refuses us,
   * DNS is all there is, and calls must not wait for a name that is misspelt; they make it look again.
   */
  #giveUp(): void {
    if (!(this.#dnsError instanceof NothingSoFar)) return;
    this.#hopeless ??= refusedError(this.#options.target, this.#finding, this.#dnsError);
    if (this.#hopeless === undefined) return;
    this.#publish('dns', []);
    this.#fail(this.#hopeless);
  }

  #climb(endpoints: readonly Endpoint[]): void {
    this.#cancelTimers();
    this.#stopDns();
    this.#publish('slices', endpoints);
  }

  #cancelTimers(): void {
    this.#grace?.cancel();
    this.#emptyTimer?.cancel();
    this.#leaving?.cancel();
    this.#leaving = undefined;
    this.#holding?.cancel();
    this.#holding = undefined;
  }

  #stopDns(): void {
    this.#dns?.close();
    this.#dns = undefined;
    this.#dnsError = undefined;
  }

  /** Uses DNS too, unless it is already in use. */
  #descend(finding: Finding): void {
    this.#finding = finding;
    this.#grace?.cancel();
    if (this.#closed) return;
    if (this.#dns !== undefined) {
      const mode = this.#mode;
      if (mode !== undefined && mode !== 'slices') this.#news.tell(mode, finding, this.#count, this.#names);
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

  #dnsUpdate(endpoints: readonly Endpoint[], reason: string | undefined): void {
    this.#dnsError = undefined;
    // "No such name" from DNS does not outweigh what the slices said before they were lost.
    if (this.#mode === 'slices' && endpoints.length === 0) return;
    // Already known, with the reason.
    if (endpoints.length === 0 && this.#saysHopeless) return;
    // Nor do pods at a port that not all of them have.
    const guessed = typeof this.#options.port === 'number' && this.#podPorts.size > 1 && !isSlots(endpoints);
    if (this.#mode === 'slices' && guessed) return;
    if (endpoints.length > 0) this.#hopeless = undefined;
    const empty = endpoints.length === 0 && this.#mode !== undefined;
    const mode = empty ? (this.#mode as DiscoveryMode) : isSlots(endpoints) ? 'name' : 'dns';
    this.#publish(mode, endpoints, reason && [reason, refusalOf(this.#finding)].filter(Boolean).join('; '));
  }

  #dnsFail(error: ResolveError): void {
    this.#dnsError = error;
    if (this.#mode === undefined) {
      this.#hopeless ??= outsideError(this.#options, this.#names, this.#finding);
      this.#giveUp();
    }
    if (this.#mode !== undefined) {
      if (this.#mode !== 'slices' && !this.#saysHopeless) this.#fail(error);
    } else if (error instanceof NothingSoFar && this.#finding.kind === 'absent') {
      this.#holding ??= this.#context.clock.timer(() => this.#failWithoutAny(), SERVICE_ANSWER_MS);
    } else this.#failWithoutAny();
  }

  #dnsFresh(): void {
    this.#dnsError = undefined;
    if (this.#mode !== 'slices' && !this.#saysHopeless) this.#fresh();
  }

  /** Whether what was reported last is that there is nothing to find. */
  get #saysHopeless(): boolean {
    return this.#hopeless !== undefined && this.#reportedError === this.#hopeless;
  }

  #publish(mode: DiscoveryMode, endpoints: readonly Endpoint[], reason?: string): void {
    this.#mode = mode;
    this.#count = endpoints.length;
    this.#news.tell(mode, this.#finding, this.#count, this.#names);
    this.#reportedError = undefined;
    if (reason === undefined || endpoints.length > 0) this.#listener.update(endpoints);
    else this.#listener.update(endpoints, reason);
  }

  #fail(error: ResolveError): void {
    this.#reportedError = error;
    this.#listener.fail(error);
  }

  #fresh(): void {
    if (this.#reportedError === undefined) return;
    this.#reportedError = undefined;
    this.#listener.fresh();
  }

  /** Nothing was ever found. */
  #failWithoutAny(): void {
    if (this.#dnsError === undefined || this.#mode !== undefined) return;
    const error = withoutAnyError(this.#options.target, this.#finding, this.#dnsError);
    if (error.message !== this.#reportedError?.message) this.#fail(error);
  }
}
