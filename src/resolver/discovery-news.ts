import { notify, type Observer } from '../observe/observer.js';
import { type ClusterNames, parseServiceHost } from './cluster-domain.js';
import { adviceFor, type DiscoveryMode, type Finding, obstacleOf, whyNoSlices } from './discovery-advice.js';

/** The target the news is about. */
export interface NewsSubject {
  readonly target: string;
  readonly host: string;
  readonly port: number | string;
}

/**
 * Reports how a target is found: `discoveryChanged` at each change of mode and only then, and `warned` for problems found in the
 * meantime that only a person can fix.
 */
export class DiscoveryNews {
  readonly #of: NewsSubject;
  readonly #observer: Observer;
  #mode: DiscoveryMode | undefined;
  /** The obstacles already reported in this mode. */
  readonly #reported = new Set<string>();

  constructor(of: NewsSubject, observer: Observer) {
    this.#of = of;
    this.#observer = observer;
  }

  /** `finding`: what is known about the first mode. `count`: how many endpoints `mode` has. */
  tell(mode: DiscoveryMode, finding: Finding, count: number, names: ClusterNames | undefined): void {
    const known: Finding = mode === 'slices' ? { kind: 'watching' } : finding;
    const obstacle = obstacleOf(known);
    const isChange = this.#mode !== mode;
    if (!isChange && (obstacle === undefined || this.#reported.has(obstacle))) return;
    if (isChange) this.#reported.clear();
    this.#mode = mode;
    if (obstacle !== undefined) this.#reported.add(obstacle);
    const { target, host, port } = this.#of;
    const advice = adviceFor({ mode, finding: known, port, count, service: parseServiceHost(host), names });
    if (isChange) {
      notify(this.#observer, 'discoveryChanged', { target, mode, ...advice });
      return;
    }
    const lines = [`${target}: ${whyNoSlices(known)}`, advice.advice].filter((line) => line !== undefined);
    notify(this.#observer, 'warned', { message: lines.join('\n') });
  }
}
