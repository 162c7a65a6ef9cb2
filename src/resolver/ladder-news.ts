import { notify, type Observer } from '../observe/observer.js';
import { type ClusterNames, parseServiceHost } from './cluster-domain.js';
import { adviceFor, type Finding, obstacleOf, type Rung, whyNoSlices } from './ladder-advice.js';

/** Whose news it is. */
export interface NewsSubject {
  readonly target: string;
  readonly host: string;
  readonly port: number | string;
}

/**
 * Tells where a ladder stands: through `rungChanged` at each change of rung and never in between, and through `warned`
 * what is learnt on a rung of something that only a person can put right.
 */
export class RungNews {
  readonly #of: NewsSubject;
  readonly #observer: Observer;
  #rung: Rung | undefined;
  /** The obstacles told on this rung. */
  readonly #told = new Set<string>();

  constructor(of: NewsSubject, observer: Observer) {
    this.#of = of;
    this.#observer = observer;
  }

  /** `finding`: what is known of the first rung. `count`: how many endpoints `rung` has. */
  tell(rung: Rung, finding: Finding, count: number, names: ClusterNames | undefined): void {
    const known: Finding = rung === 'slices' ? { kind: 'watching' } : finding;
    const obstacle = obstacleOf(known);
    const isChange = this.#rung !== rung;
    if (!isChange && (obstacle === undefined || this.#told.has(obstacle))) return;
    if (isChange) this.#told.clear();
    this.#rung = rung;
    if (obstacle !== undefined) this.#told.add(obstacle);
    const { target, host, port } = this.#of;
    const told = adviceFor({ rung, finding: known, port, count, service: parseServiceHost(host), names });
    if (isChange) {
      notify(this.#observer, 'rungChanged', { target, rung, ...told });
      return;
    }
    const lines = [`${target}: ${whyNoSlices(known)}`, told.advice].filter((line) => line !== undefined);
    notify(this.#observer, 'warned', { message: lines.join('\n') });
  }
}
