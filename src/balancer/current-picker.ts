import type { Warnings } from '../observe/warnings.js';
import { p2c } from '../picker/p2c.js';
import {
  createPickRequest,
  type Picker,
  type PickerFactory,
  type PickRequest,
  type PickSet,
} from '../picker/picker.js';
import { hasShare } from '../pool/dial-order.js';
import type { Member } from '../pool/pool.js';
import { Subchannel } from '../pool/subchannel.js';
import { ignoreRejection } from '../runtime/ignore-rejection.js';
import type { Rng } from '../runtime/rng.js';

/**
 * Holds the picker that calls use. If a picker throws, when it is built or when it picks, `p2c` replaces it until the next picker is built,
 * so that it does not fail every call. Factories, pickers and observers run inside these methods and may call the balancer, even close it.
 */
export class CurrentPicker<C> {
  readonly #factory: PickerFactory;
  readonly #rng: Rng;
  readonly #warnings: Warnings;
  /** The request object that all picks share, so that a pick allocates nothing. */
  readonly request: PickRequest = createPickRequest();
  // Only this class writes `picker`, `wantsEnds` and `firstLeft`. They are plain fields because every call reads them.
  /** The picker that calls use now; undefined before the first set, and after `clear`. */
  picker: Picker<Subchannel<C>> | undefined;
  /** Whether the picker has a method `ended`, which must then be called at the end of each call. */
  wantsEnds = false;
  /** How many picks are left for the few subchannels that the picker was built for; -1 = the picker was built for all subchannels. */
  firstLeft = -1;
  #set: PickSet<Subchannel<C>> | undefined;
  #members: readonly Member<C>[] = [];

  constructor(factory: PickerFactory, rng: Rng, warnings: Warnings) {
    this.#factory = factory;
    this.#rng = rng;
    this.#warnings = warnings;
  }

  /** Whether the picker was built with at least one subchannel that was ready. */
  get hasReady(): boolean {
    return this.#set !== undefined && this.#set.targets.length > 0;
  }

  /**
   * Builds a new picker over `members`. Takes O(n), and the time that the picker's factory takes.
   *
   * @param first The next picks go to these subchannels, one each; then the picker is rebuilt for all members. Empty = the picker is built
   * for all at once.
   */
  rebuild(members: readonly Member<C>[], first: readonly Subchannel<C>[] = []): void {
    const set = pickSetOf(members, first.length > 0 ? first : undefined);
    this.#members = members;
    this.#set = set;
    this.firstLeft = first.length > 0 ? first.length : -1;
    this.#build(set, this.picker);
  }

  #build(set: PickSet<Subchannel<C>>, previous: Picker<Subchannel<C>> | undefined): void {
    try {
      // The factory may be the application's and return anything; `unusable` reports picks that are not from the set.
      const picker = this.#factory(set, previous, { rng: this.#rng }) as Picker<Subchannel<C>>;
      ignoreRejection(picker);
      this.#use(set, picker);
    } catch (error) {
      this.#standIn(set);
      this.#threw(error);
    }
  }

  /** Puts `picker` in place, unless its factory has closed the balancer or made it build another picker meanwhile. */
  #use(set: PickSet<Subchannel<C>>, picker: Picker<Subchannel<C>>): void {
    const wantsEnds = picker.ended !== undefined;
    if (this.#set !== set) return;
    this.picker = picker;
    this.wantsEnds = wantsEnds;
  }

  /** Picks among the few subchannels that the picker was built for; when each has had one pick, the picker is rebuilt for all. */
  pickFirst(
    nowMs: number,
    key: string | undefined,
    avoid: ReadonlySet<Subchannel<C>> | undefined,
  ): Subchannel<C> | undefined {
    if (--this.firstLeft < 0) this.rebuild(this.#members);
    const { request } = this;
    // The request is filled in after the picker was built, because the picker's factory may have picked with the same request object.
    request.nowMs = nowMs;
    request.key = key;
    request.avoid = avoid;
    let picked: Subchannel<C> | undefined;
    try {
      picked = this.picker?.pick(request);
    } catch (error) {
      picked = this.pickInstead(error);
    }
    if (picked !== undefined || this.firstLeft < 0) return picked;
    // None of the endpoints drawn for the first calls can take this call; another endpoint may.
    this.firstLeft = 0;
    return this.pickFirst(nowMs, key, avoid);
  }

  /** Picks with `p2c` for the current request, after the picker threw `error`. */
  pickInstead(error: unknown): Subchannel<C> | undefined {
    const set = this.#set;
    if (set === undefined) return undefined;
    try {
      return this.#standIn(set).pick(this.request);
    } catch {
      // If `p2c` throws too, the picker is not at fault: a load or a connection throws when it is read.
      return undefined;
    } finally {
      // The failure is reported after the pick, because an observer may pick too, which changes the request object.
      this.#threw(error);
    }
  }

  /**
   * The picker returned something without a connection. That is normal for a subchannel whose connection was just lost; anything but a
   * subchannel is a fault of the picker and is reported.
   */
  unusable(picked: unknown): undefined {
    if (picked && !(picked instanceof Subchannel)) {
      ignoreRejection(picked);
      this.#warnings.warn('the picker returned something that is not a subchannel', picked);
    }
    return undefined;
  }

  /** Notifies the picker that a call on `subchannel` ended. Only called while `wantsEnds`. */
  ended(subchannel: Subchannel<C>): void {
    try {
      ignoreRejection(this.picker?.ended?.(subchannel));
    } catch (error) {
      if (this.#set !== undefined) this.#standIn(this.#set);
      this.#threw(error);
    }
  }

  /** Removes the picker, so that nothing can be picked any longer. */
  clear(): void {
    this.picker = undefined;
    this.wantsEnds = false;
    this.#set = undefined;
    this.#members = [];
    this.firstLeft = -1;
  }

  #standIn(set: PickSet<Subchannel<C>>): Picker<Subchannel<C>> {
    const picker = p2c()(set, undefined, { rng: this.#rng }) as Picker<Subchannel<C>>;
    this.#use(set, picker);
    return picker;
  }

  #threw(error: unknown): void {
    this.#warnings.warn('the picker threw; p2c replaces it', error);
  }
}

/**
 * Creates the set that a picker may choose from: the pool's members without those on standby, and the ready ones among them. With `only`,
 * no other subchannel counts as ready.
 */
function pickSetOf<C>(members: readonly Member<C>[], only?: readonly Subchannel<C>[]): PickSet<Subchannel<C>> {
  const targets: Subchannel<C>[] = [];
  const weights: number[] = [];
  const all: Subchannel<C>[] = [];
  const allWeights: number[] = [];
  let equalWeights = true;
  for (const { subchannel, weight } of members) {
    // An invalid weight (NaN) would break every comparison in a picker.
    if (!hasShare(weight)) continue;
    all.push(subchannel);
    allWeights.push(weight);
    if (subchannel.state !== 'ready' || only?.includes(subchannel) === false) continue;
    if (weight !== (weights[0] ?? weight)) equalWeights = false;
    targets.push(subchannel);
    weights.push(weight);
  }
  return { targets, weights, equalWeights, all, allWeights };
}
