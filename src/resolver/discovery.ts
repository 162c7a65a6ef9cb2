import { asError, isEvenkeelError, ResolveError } from '../errors.js';
import type { Timer } from '../runtime/clock.js';
import { clusterNames, serviceOf } from './cluster-domain.js';
import type { DiscoveryMode } from './discovery-advice.js';
import {
  type Awaited,
  type Choice,
  type ChoiceOptions,
  choose,
  findingOf,
  type Known,
  nothingChosen,
  podPorts,
} from './discovery-choice.js';
import { DiscoveryReport } from './discovery-report.js';
import { dnsMode } from './dns-mode.js';
import { Announcer, follow, nothingYet } from './resolved.js';
import type { Resolution, Resolver, ResolverContext, ResolverListener } from './resolver.js';

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

/** The target of a discovery, and what is needed for each way to find its endpoints. */
export interface DiscoveryOptions extends ChoiceOptions {
  readonly slices: SliceMode;
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

/** Follows the EndpointSlices and, while they are needed, the answers of DNS; `choose` says what to make of both. */
export class DiscoveryWatch implements Resolution {
  readonly #options: DiscoveryOptions;
  readonly #context: ResolverContext;
  readonly #announcer: Announcer;
  readonly #report: DiscoveryReport;
  #slices: Resolution | undefined;
  #dns: Resolution | undefined;
  #known: Known = {
    names: undefined,
    unwatched: undefined,
    slices: nothingYet,
    sliceCount: undefined,
    isService: false,
    isFirstSlice: false,
    reachesNone: false,
    dns: undefined,
    waitedFor: undefined,
  };
  #choice = nothingChosen;
  #wait: { readonly until: Awaited; readonly timer: Timer } | undefined;
  #isClosed = false;

  constructor(options: DiscoveryOptions, listener: ResolverListener, context: ResolverContext) {
    this.#options = options;
    this.#context = context;
    this.#announcer = new Announcer(listener);
    this.#report = new DiscoveryReport(options, context.observer);
    void this.#start();
  }

  get phase(): DiscoveryPhase {
    const follows = [this.#slices && 'slices', this.#dns && 'DNS'].filter(Boolean).join(' and ') || 'nothing';
    return { published: this.#choice.mode ?? 'nothing', follows: follows as DiscoveryPhase['follows'] };
  }

  refresh(failingSinceMs?: number, reachesNone?: boolean): void {
    this.#slices?.refresh(failingSinceMs, reachesNone);
    this.#dns?.refresh();
    if (reachesNone && this.#known.slices.error !== undefined && !this.#isClosed) this.#learn({ reachesNone });
  }

  close(): void {
    this.#isClosed = true;
    this.#announcer.close();
    this.#wait?.timer.cancel();
    this.#slices?.close();
    this.#dns?.close();
  }

  async #start(): Promise<void> {
    const { target, host, port, slices, dns } = this.#options;
    try {
      const names = await clusterNames(dns);
      this.#known = { ...this.#known, names };
      const service = serviceOf(host, names);
      if (service === undefined) return this.#learn({ unwatched: { kind: 'no-service' } });
      if (this.#isClosed) return;
      const resolver = await slices({ ...service, port }, (count) => this.#counted(count));
      if (typeof resolver === 'string') return this.#learn({ unwatched: { kind: 'unavailable', reason: resolver } });
      if (this.#isClosed) return;
      this.#slices = follow(resolver, this.#context, (state) => {
        const { reachesNone } = this.#known;
        this.#learn({ slices: state, isFirstSlice: false, reachesNone: reachesNone && state.error !== undefined });
      });
      this.#choose();
    } catch (error) {
      // An invalid option of the watch is a mistake in the program. If DNS were used instead, nobody would notice.
      if (isEvenkeelError(error, 'EVENKEEL_OPTION')) {
        const message = `${target}: ${error.message}`;
        this.#announcer.say({ ...nothingYet, error: new ResolveError(message, { permanent: true, cause: error }) });
      } else this.#learn({ unwatched: { kind: 'failed', error: asError(error) } });
    }
  }

  #counted(sliceCount: number): void {
    const { isService, slices } = this.#known;
    if (isService || sliceCount === 0) this.#learn({ sliceCount });
    else this.#learn({ sliceCount, isService: true, isFirstSlice: slices.endpoints !== undefined });
  }

  #learn(news: Partial<Known>): void {
    this.#known = { ...this.#known, ...news };
    this.#choose();
  }

  /** Does what `choose` says: queries DNS or stops to, waits, and publishes. */
  #choose(): void {
    if (this.#isClosed) return;
    this.#choice = choose(this.#options, this.#known, this.#choice);
    const { mode, state, needsDns, wait } = this.#choice;
    this.#waitFor(wait);
    if (needsDns) this.#queryDns();
    else this.#stopDns();
    if (mode === 'slices') this.#known = { ...this.#known, isFirstSlice: false };
    if (mode !== undefined) {
      const count = state.endpoints?.length ?? 0;
      this.#report.say(mode, findingOf(this.#known), count, this.#known.names);
    }
    this.#announcer.say(this.#choice.state);
  }

  #queryDns(): void {
    if (this.#dns !== undefined) return;
    this.#known = { ...this.#known, dns: nothingYet };
    const resolver = dnsMode(this.#options, this.#known.names, () => podPorts(this.#known.slices));
    this.#dns = follow(resolver, this.#context, (dns) => this.#learn({ dns }));
  }

  #stopDns(): void {
    this.#dns?.close();
    this.#dns = undefined;
    this.#known = { ...this.#known, dns: undefined };
  }

  /** Starts to wait, unless it is the same wait as before: that goes on, or is over. */
  #waitFor(wait: Choice['wait']): void {
    if (this.#wait?.until === wait?.until) return;
    this.#wait?.timer.cancel();
    this.#wait = undefined;
    this.#known = { ...this.#known, waitedFor: undefined };
    if (wait === undefined) return;
    const { until, ms } = wait;
    this.#wait = { until, timer: this.#context.clock.timer(() => this.#learn({ waitedFor: until }), ms) };
  }
}
