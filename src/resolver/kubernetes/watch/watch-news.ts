import { ResolveError } from '../../../errors.js';
import { type ApiFailure, resolveErrorOf } from '../api/api-failure.js';
import type { ListWatchOptions } from './list-watch-options.js';

/**
 * Passes failures of a list-and-watch loop to its listener, without repeating them: each failure once until the loop is in touch with the
 * API server again, or until a refusal begins or ends; and each warning once until the next list.
 */
export class WatchNews {
  readonly #options: ListWatchOptions;
  /** The failures reported since the loop was last in touch with the API server. */
  readonly #reported = new Set<string>();
  /** Whether the failure that occurred last lasts until somebody solves the problem, such as a missing permission. */
  #isPermanent = false;
  readonly #warned = new Set<string>();
  #closed = false;

  constructor(options: ListWatchOptions) {
    this.#options = options;
  }

  close(): void {
    this.#closed = true;
  }

  async failed(verb: 'list' | 'watch', failure: ApiFailure, how: 'lasting' | 'passing' = 'lasting'): Promise<void> {
    const namespace = await this.#options.namespace().catch(() => 'of this pod');
    const { client, listener } = this.#options;
    if (this.#closed) return;
    const lasting = resolveErrorOf(failure, verb, namespace, client.server);
    const error = how === 'passing' ? notPermanent(lasting) : lasting;
    // An outage after a refusal, or a refusal after an outage, is news again, because listeners react to a refusal that lasts.
    if (error.permanent !== this.#isPermanent) this.#reported.clear();
    this.#isPermanent = error.permanent;
    const news = `${failure.kind} ${failure.label} ${how}`;
    if (this.#reported.has(news)) return;
    this.#reported.add(news);
    listener.failed(error);
  }

  confirmed(): void {
    if (this.#closed) return;
    this.#reported.clear();
    this.#isPermanent = false;
    this.#options.listener.confirmed();
  }

  warned(kind: string, message: string, error?: unknown): void {
    if (this.#closed || this.#warned.has(kind)) return;
    this.#warned.add(kind);
    this.#options.listener.warned(message, error);
  }

  /** A list is complete, so warnings may be reported again. */
  listed(): void {
    this.#warned.clear();
  }
}

/** Copies an error as one that is not permanent, because its cause may pass soon. */
function notPermanent({ message, cause }: ResolveError): ResolveError {
  return new ResolveError(message, { code: 'EVENKEEL_FORBIDDEN', cause });
}
