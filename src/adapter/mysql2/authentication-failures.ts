import { type EndpointSnapshot, EvenkeelError, isEvenkeelError, type ObserverEvents } from '../../index.js';

/** Numbers by which a server refuses whoever logs in as we do. It will do so again until somebody changes that. */
const DENIED: ReadonlySet<unknown> = new Set([
  1044, // ER_DBACCESS_DENIED_ERROR
  1045, // ER_ACCESS_DENIED_ERROR
  1049, // ER_BAD_DB_ERROR
  1130, // ER_HOST_NOT_PRIVILEGED
  1251, // ER_NOT_SUPPORTED_AUTH_MODE
  1698, // ER_ACCESS_DENIED_NO_PASSWORD_ERROR
  3118, // ER_ACCOUNT_HAS_BEEN_LOCKED (MySQL)
  4151, // ER_ACCOUNT_HAS_BEEN_LOCKED (MariaDB)
]);

/** Called with the error for those who wait. */
type Told = (error: EvenkeelError) => void;

/**
 * Which servers of a service refused us, and for no other reason than who we are. As long as all of them do, nobody needs
 * to wait for one; connecting goes on, so that calls are served again soon after a password was set right.
 */
export class AuthenticationFailures {
  /** By the endpoint's key: what a server said last. */
  readonly #errors = new Map<string, Error>();
  readonly #waiting = new Set<Told>();
  readonly #endpoints: () => readonly EndpointSnapshot[];

  constructor(endpoints: () => readonly EndpointSnapshot[]) {
    this.#endpoints = endpoints;
  }

  /** For the observer of the service's balancer. */
  changed({ endpoint, to, error }: ObserverEvents['subchannelChanged']): void {
    // What it said before holds while it is asked again.
    if (to === 'connecting' || to === 'idle') return;
    if (to !== 'backoff' || !isDenial(error)) {
      this.#errors.delete(endpoint.key);
      return;
    }
    this.#errors.set(endpoint.key, error as Error);
    const refusal = this.#waiting.size > 0 ? this.refusal : undefined;
    if (refusal !== undefined) for (const told of this.#waiting) told(refusal);
  }

  /** Why there is nothing to wait for; undefined while any server may yet let us in. */
  get refusal(): EvenkeelError | undefined {
    if (this.#errors.size === 0) return undefined;
    let count = 0;
    let last: Error | undefined;
    for (const { key, state } of this.#endpoints()) {
      if (state === 'draining' || state === 'closed') continue;
      last = this.#errors.get(key);
      if (last === undefined) return undefined;
      count++;
    }
    if (last === undefined) return undefined;
    const { cause } = last;
    if (isEvenkeelError(cause, 'EVENKEEL_OPTION')) {
      return new EvenkeelError('EVENKEEL_OPTION', cause.message, { cause: cause.cause });
    }
    const what = count === 1 ? last.message : `all ${count} servers refuse us: ${last.message}`;
    const { endpoint } = last as { readonly endpoint?: string };
    return new EvenkeelError('EVENKEEL_CONNECT', what, {
      cause: last.cause,
      ...(endpoint !== undefined && { endpoint }),
    });
  }

  /** From now on `told` hears when all servers have refused us. Returns how to stop that. */
  listen(told: Told): () => void {
    this.#waiting.add(told);
    return () => this.#waiting.delete(told);
  }
}

/** Whether a server gave it for an answer to our log-in, or a function of the application does not say who we are. */
function isDenial(error: Error | undefined): boolean {
  if (isEvenkeelError(error?.cause, 'EVENKEEL_OPTION')) return true;
  const { errno } = (error?.cause ?? {}) as { readonly errno?: unknown };
  return DENIED.has(errno);
}
