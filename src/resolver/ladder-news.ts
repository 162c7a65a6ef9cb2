import { notify, type Observer } from '../observe/observer.js';
import { type ClusterNames, parseServiceHost } from './cluster-domain.js';
import { adviceFor, type Finding, findingKey, type Rung } from './ladder-advice.js';

/** Tells through `rungChanged` where a ladder stands: at each change of rung, and when the reason turns out to be another. */
export class RungNews {
  readonly #of: { readonly target: string; readonly host: string; readonly port: number | string };
  readonly #observer: Observer;
  #rung: Rung | undefined;
  /** What was told on this rung: reasons may come and go, and are not worth telling twice. */
  readonly #told = new Set<string>();

  constructor(
    of: { readonly target: string; readonly host: string; readonly port: number | string },
    observer: Observer,
  ) {
    this.#of = of;
    this.#observer = observer;
  }

  /** `finding`: what is known of the first rung. `count`: how many endpoints `rung` has. */
  tell(rung: Rung, finding: Finding, count: number, names: ClusterNames | undefined): void {
    const known: Finding = rung === 'slices' ? { kind: 'watching' } : finding;
    const news = `${rung} ${findingKey(known)}`;
    if (this.#told.has(news)) return;
    if (this.#rung !== rung) this.#told.clear();
    this.#rung = rung;
    this.#told.add(news);
    const { target, host, port } = this.#of;
    const told = adviceFor({ rung, finding: known, port, count, service: parseServiceHost(host), names });
    notify(this.#observer, 'rungChanged', { target, rung, ...told });
  }
}
