import type { Endpoint } from '../endpoint/endpoint.js';
import type { ResolveError } from '../errors.js';
import { notify, type Observer } from '../observe/observer.js';
import { type ClusterNames, parseServiceHost } from './cluster-domain.js';
import { adviceFor, type DiscoveryMode, type Finding, obstacleOf, whyNoSlices } from './discovery-advice.js';
import type { ResolverListener } from './resolver.js';

/** The target that is reported on. */
export interface DiscoveryTarget {
  readonly target: string;
  readonly host: string;
  readonly port: number | string;
}

/** What a discovery knows when a set is published. */
export interface DiscoveryKnowledge {
  /** What is known about the first discovery mode, the watch of EndpointSlices. */
  readonly finding: Finding;
  readonly names: ClusterNames | undefined;
}

/**
 * What a discovery has reported so far: the sets and failures to its listener, and to observers how the target is found. Observers get
 * `discoveryChanged` at each change of mode and only then, and `warned` for problems found in the meantime that only a person can fix.
 */
export class DiscoveryReport {
  readonly #target: DiscoveryTarget;
  readonly #listener: ResolverListener;
  readonly #observer: Observer;
  /** The discovery mode of the last set; undefined if there was none. */
  #mode: DiscoveryMode | undefined;
  /** How many endpoints the last published set has. */
  #count = 0;
  /** The last failure to find endpoints; undefined while the set is fresh. */
  #error: ResolveError | undefined;
  /** The obstacles to the first discovery mode that were already reported in the current mode. */
  readonly #obstacles = new Set<string>();

  constructor(target: DiscoveryTarget, listener: ResolverListener, observer: Observer) {
    this.#target = target;
    this.#listener = listener;
    this.#observer = observer;
  }

  get mode(): DiscoveryMode | undefined {
    return this.#mode;
  }

  /** Whether the last published set is empty, or there was none. */
  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /** The last failure to find endpoints; undefined while the set is fresh. */
  get error(): ResolveError | undefined {
    return this.#error;
  }

  /** Publishes a set. @param reason Why the set is empty, in words. */
  publish(mode: DiscoveryMode, endpoints: readonly Endpoint[], known: DiscoveryKnowledge, reason?: string): void {
    this.#count = endpoints.length;
    this.#explain(mode, known);
    this.#error = undefined;
    if (reason === undefined || endpoints.length > 0) this.#listener.update(endpoints);
    else this.#listener.update(endpoints, reason);
  }

  fail(error: ResolveError): void {
    this.#error = error;
    this.#listener.fail(error);
  }

  /** The last published set was confirmed, if a failure had made it doubtful. */
  confirm(): void {
    if (this.#error === undefined) return;
    this.#error = undefined;
    this.#listener.fresh();
  }

  /** More is known about the first discovery mode, while the published set is from a lower one. */
  learned(known: DiscoveryKnowledge): void {
    if (this.#mode !== undefined && this.#mode !== 'slices') this.#explain(this.#mode, known);
  }

  #explain(mode: DiscoveryMode, { finding, names }: DiscoveryKnowledge): void {
    const known: Finding = mode === 'slices' ? { kind: 'watching' } : finding;
    const obstacle = obstacleOf(known);
    const isChange = this.#mode !== mode;
    if (!isChange && (obstacle === undefined || this.#obstacles.has(obstacle))) return;
    if (isChange) this.#obstacles.clear();
    this.#mode = mode;
    if (obstacle !== undefined) this.#obstacles.add(obstacle);
    const { target, host, port } = this.#target;
    const count = this.#count;
    const advice = adviceFor({ mode, finding: known, port, count, service: parseServiceHost(host), names });
    if (isChange) {
      notify(this.#observer, 'discoveryChanged', { target, mode, ...advice });
      return;
    }
    const lines = [`${target}: ${whyNoSlices(known)}`, advice.advice].filter((line) => line !== undefined);
    notify(this.#observer, 'warned', { message: lines.join('\n') });
  }
}
