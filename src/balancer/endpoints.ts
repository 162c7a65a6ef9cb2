import type { WaitingRoom } from '../call/waiting-room.js';
import { EndpointSet } from '../endpoint/endpoint-set.js';
import type { EventCounts } from '../observe/event-counts.js';
import type { Observer } from '../observe/observer.js';
import type { Warnings } from '../observe/warnings.js';
import { Pool } from '../pool/pool.js';
import type { ResolvedBalancerOptions } from './balancer-options.js';
import type { CurrentPicker } from './current-picker.js';
import { EndpointFeed } from './endpoint-feed.js';
import { FirstCalls } from './first-calls.js';
import { type RebuildKind, RebuildScheduler } from './rebuild-scheduler.js';
import { closedError, notStartedError, Refusals } from './refusals.js';
import { StageChain } from './stage-chain.js';
import { StartGate } from './start-gate.js';
import { Verdicts } from './verdicts.js';

/** What `Endpoints` needs from its balancer. */
export interface EndpointsParts<C> {
  readonly options: ResolvedBalancerOptions<C>;
  /** Where the current picker is stored, from which calls read it. */
  readonly currentPicker: CurrentPicker<C>;
  readonly room: WaitingRoom<C>;
  readonly observer: Observer;
  readonly warnings: Warnings;
  readonly events: EventCounts;
}

/**
 * The slow side of a balancer: it follows the resolver, runs the stages over each set, keeps the pool in step, and builds the picker that
 * calls read. No call runs through this class.
 */
export class Endpoints<C> {
  readonly feed: EndpointFeed;
  readonly pool: Pool<C>;
  readonly first: FirstCalls<C>;
  readonly start: StartGate;
  readonly refusals: Refusals<C>;
  readonly #parts: EndpointsParts<C>;
  readonly #stages: StageChain;
  readonly #rebuilds: RebuildScheduler;
  readonly #verdicts: Verdicts;
  #isClosed = false;

  constructor(parts: EndpointsParts<C>) {
    const { options, currentPicker, room, observer, warnings } = parts;
    const { clock, rng, resolver, startTimeoutMs } = options;
    this.#parts = parts;
    this.#rebuilds = new RebuildScheduler({
      clock,
      work: (what) => this.#work(what),
      firstWaitMs: () => (currentPicker.hasReady ? undefined : this.first.waitMs()),
    });
    this.#verdicts = new Verdicts(clock, () => this.#rebuilds.request('stages'));
    this.start = new StartGate(clock, startTimeoutMs, () => notStartedError(this.feed, startTimeoutMs));
    this.#stages = new StageChain(
      options.stages,
      {
        clock,
        rng,
        observer,
        invalidate: () => this.#verdicts.request(),
        probe: (endpoint, signal) => this.pool.ping(endpoint.key, signal),
      },
      warnings,
    );
    this.pool = new Pool<C>({
      transport: options.transport,
      clock,
      rng,
      observer,
      warnings,
      options: options.pool,
      load: options.load,
      track: (endpoint) => this.#stages.track(endpoint),
      changed: () => this.#rebuilds.request('picker'),
      // Waiting callers are served later in this turn, because this function is called while a subchannel changes its state.
      capacityGained: () => {
        if (room.size > 0) clock.defer(() => room.wake());
      },
      troubled: () => {
        // A connection could not be opened, so the first callers may no longer have to wait for it.
        if (this.first.isWaiting) this.#rebuilds.request('picker');
        this.feed.refresh(this.pool.failing);
        if (room.size === 0) return;
        const refusal = this.refusals.byAll;
        if (refusal !== undefined) room.fail(refusal);
        else this.judgeWaiting();
      },
    });
    this.first = new FirstCalls(this.pool, room, clock);
    try {
      this.feed = new EndpointFeed(resolver, {
        clock,
        rng,
        observer,
        endpointsChanged: () => this.#rebuilds.request('stages'),
        neverStarts: (error) => {
          this.start.fail(error);
          room.fail(error);
        },
      });
    } catch (error) {
      this.#rebuilds.close();
      this.#stages.close();
      throw error;
    }
    this.refusals = new Refusals(this.feed, this.pool, parts.events, options.waitForEndpoints);
  }

  /** Without `waitWhileRefused`: dials for callers that wait, and rejects those for which every endpoint has refused. */
  judgeWaiting(): void {
    const { options, room } = this.#parts;
    if (options.waitWhileRefused || room.size === 0) return;
    this.pool.dialNow(room.joinedMs);
    const { refusedMs } = this.pool;
    if (refusedMs > Number.NEGATIVE_INFINITY) room.fail(this.refusals.byEach, refusedMs);
  }

  /** Ignores all further endpoint sets. Resolves once all connections are closed; when `cut` aborts, calls that still run are cut. */
  async close(cut: AbortSignal): Promise<void> {
    this.#isClosed = true;
    this.#rebuilds.close();
    this.#verdicts.close();
    this.feed.close();
    const error = closedError();
    this.#parts.room.close(error);
    this.start.fail(error);
    this.#stages.close();
    await this.pool.close(cut);
  }

  #work(what: RebuildKind): number {
    const { currentPicker, room, options } = this.#parts;
    const { endpoints } = this.feed;
    if (endpoints === undefined) return 0;
    if (what === 'stages') {
      this.#verdicts.ran();
      const known = EndpointSet.of(this.feed.version, endpoints);
      const set = this.#stages.apply(known);
      this.refusals.isEmpty = set.size === 0;
      this.first.began(this.pool.reconcile(set, this.feed.byKey));
    }
    // An observer or a stage may have closed the balancer during the lines above.
    if (this.#isClosed) return 0;
    this.start.open();
    const isFirst = currentPicker.picker !== undefined && !currentPicker.hasReady;
    if (isFirst && this.first.waitMs() > 0) {
      this.#rebuilds.request('picker');
      return 0;
    }
    const { clock } = options;
    const beganMs = clock.now();
    currentPicker.rebuild(this.pool.members, this.first.only());
    const costMs = clock.now() - beganMs;
    if (currentPicker.hasReady) this.first.served();
    const refusal = this.refusals.ofEmptySet;
    if (refusal !== undefined) room.fail(refusal);
    else {
      room.wake();
      this.judgeWaiting();
    }
    return costMs;
  }
}
