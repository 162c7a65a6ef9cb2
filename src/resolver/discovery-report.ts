import type { Endpoint } from '../endpoint/endpoint.js';
import type { ResolveError } from '../errors.js';
import { notify, type Observer } from '../observe/observer.js';
import { type ClusterNames, parseServiceHost } from './cluster-domain.js';
import { adviceFor, type DiscoveryMode, type Finding, obstacleOf, whyNoSlices } from './discovery-advice.js';
import { Announcer } from './resolved.js';
import type { ResolverListener } from './resolver.js';

/** The target that is reported on. */
export interface DiscoveryTarget {
  readonly target: string;
  readonly host: string;
  readonly port: number | string;
}

/** What a discovery knows at the moment when it publishes a set. */
export interface DiscoveryKnowledge {
  /** What is known about the best way to find endpoints, a watch of EndpointSlices. */
  readonly finding: Finding;
  readonly names: ClusterNames | undefined;
}

/**
 * Passes the sets and failures of a discovery to its listener, and tells observers how the endpoints are found: the event
 * `discoveryChanged` says so whenever that changes, and `warned` names problems that only a person can solve, each once.
 */
export class DiscoveryReport {
  readonly #target: DiscoveryTarget;
  readonly #announcer: Announcer;
  readonly #observer: Observer;
  /** How the last published set was found; undefined if there was none. */
  #mode: DiscoveryMode | undefined;
  /** How many endpoints the last published set has. */
  #count = 0;
  /** The problems with watching EndpointSlices that were already reported since the way of finding endpoints last changed. */
  readonly #obstacles = new Set<string>();

  constructor(target: DiscoveryTarget, listener: ResolverListener, observer: Observer) {
    this.#target = target;
    this.#announcer = new Announcer(listener);
    this.#observer = observer;
  }

  get mode(): DiscoveryMode | undefined {
    return this.#mode;
  }

  /** Whether the last published set is empty or no set was published. */
  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /** The last failure to find endpoints; undefined while the set is up to date. */
  get error(): ResolveError | undefined {
    return this.#announcer.announced.error;
  }

  /** Publishes a set. @param reason The reason why the set is empty, as text. */
  publish(mode: DiscoveryMode, endpoints: readonly Endpoint[], known: DiscoveryKnowledge, reason?: string): void {
    this.#count = endpoints.length;
    this.#explain(mode, known);
    this.#announcer.say({ endpoints, emptyBecause: reason, error: undefined });
  }

  fail(error: ResolveError): void {
    this.#announcer.say({ ...this.#announcer.announced, error });
  }

  /** Reports that the last published set is right after all, if a failure had made that doubtful. */
  confirm(): void {
    this.#announcer.say({ ...this.#announcer.announced, error: undefined });
  }

  /** Says that more is known about the watch of EndpointSlices. This is only reported if the published set comes from DNS. */
  learned(known: DiscoveryKnowledge): void {
    if (this.#mode !== undefined && this.#mode !== 'slices') this.#explain(this.#mode, known);
  }

  close(): void {
    this.#announcer.close();
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
