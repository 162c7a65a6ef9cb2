import { notify, type Observer } from '../observe/observer.js';
import { type ClusterNames, parseServiceHost } from './cluster-domain.js';
import { adviceFor, type DiscoveryMode, type Finding, obstacleOf, whyNoSlices } from './discovery-advice.js';

/** The target that is reported on. */
export interface DiscoveryTarget {
  readonly target: string;
  readonly host: string;
  readonly port: number | string;
}

/**
 * Tells observers how the endpoints are found: the event `discoveryChanged` says so whenever that changes, and `warned` names problems
 * that only a person can solve, each once.
 */
export class DiscoveryReport {
  readonly #target: DiscoveryTarget;
  readonly #observer: Observer;
  #mode: DiscoveryMode | undefined;
  /** The problems with watching EndpointSlices that were already reported since the way of finding endpoints last changed. */
  readonly #obstacles = new Set<string>();

  constructor(target: DiscoveryTarget, observer: Observer) {
    this.#target = target;
    this.#observer = observer;
  }

  /** @param finding What is known about a better way than DNS. @param count How many endpoints were found. */
  say(mode: DiscoveryMode, finding: Finding, count: number, names: ClusterNames | undefined): void {
    const known: Finding = mode === 'slices' ? { kind: 'watching' } : finding;
    const obstacle = obstacleOf(known);
    const isChange = this.#mode !== mode;
    if (!isChange && (obstacle === undefined || this.#obstacles.has(obstacle))) return;
    if (isChange) this.#obstacles.clear();
    this.#mode = mode;
    if (obstacle !== undefined) this.#obstacles.add(obstacle);
    const { target, host, port } = this.#target;
    const advice = adviceFor({ mode, finding: known, port, count, service: parseServiceHost(host), names });
    if (isChange) {
      notify(this.#observer, 'discoveryChanged', { target, mode, ...advice });
      return;
    }
    const lines = [`${target}: ${whyNoSlices(known)}`, advice.advice].filter((line) => line !== undefined);
    notify(this.#observer, 'warned', { message: lines.join('\n') });
  }
}
