import { ResolveError } from '../../../errors.js';
import type { ApiSession } from './api-access.js';

/**
 * The namespace to watch: the one in the options, otherwise the one that belongs to the credentials, such as the pod's own. Until it is
 * known, each request tries again to find it.
 */
export class ApiNamespace {
  readonly #session: ApiSession;
  #known: string | undefined;

  constructor(named: string | undefined, session: ApiSession) {
    this.#known = named;
    this.#session = session;
  }

  /** The namespace. Rejects with a ResolveError while it is unknown. */
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
