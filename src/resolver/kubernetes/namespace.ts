import { ResolveError } from '../../errors.js';
import type { ApiSession } from './api-access.js';

/** The namespace to look in: the one that was named, else the one our credentials belong to, asked for until known. */
export class ApiNamespace {
  readonly #session: ApiSession;
  #known: string | undefined;

  constructor(named: string | undefined, session: ApiSession) {
    this.#known = named;
    this.#session = session;
  }

  /** Rejects with a ResolveError while it cannot be found out. */
  async get(): Promise<string> {
    this.#known ??= await this.#session.namespace();
    if (this.#known === undefined) {
      throw new ResolveError('no namespace: name one, or run in a pod or with a kubeconfig that has one', {
        permanent: true,
      });
    }
    return this.#known;
  }
}
