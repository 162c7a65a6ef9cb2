import { type Clock, isEvenkeelError, type Timer } from '../../../index.js';

/** How long a server that takes no further connection is held to those it gave, in ms. */
const CROWDED_MS = 5_000;

/** Refusals that say nothing against the connections there are: too many of them, or a password that has just changed. */
const REFUSALS: ReadonlySet<unknown> = new Set([
  1040, // ER_CON_COUNT_ERROR
  1044, // ER_DBACCESS_DENIED_ERROR
  1045, // ER_ACCESS_DENIED_ERROR
  1049, // ER_BAD_DB_ERROR
  1129, // ER_HOST_IS_BLOCKED
  1203, // ER_TOO_MANY_USER_CONNECTIONS
  1226, // ER_USER_LIMIT_REACHED
  // Our own machine has no more to give.
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
  'EADDRNOTAVAIL',
  // It, or a proxy before it, hung up instead of a greeting. If it died, the connections it has tell of that at once.
  'ECONNRESET',
  'EPIPE',
  'PROTOCOL_CONNECTION_LOST',
]);

/**
 * What a refused connection says of a server that has others: it is `full`, it is `leaving` (its listener is closed),
 * it is `silent` (it accepts, but does not greet), or nothing is known.
 */
export function meaningOf(error: Error | undefined): 'full' | 'leaving' | 'silent' | 'unknown' {
  // We do not know who we are: no other connection can be had now, through no fault of the server.
  if (isEvenkeelError(error, 'EVENKEEL_OPTION')) return 'full';
  const { code, errno } = (error ?? {}) as { readonly code?: unknown; readonly errno?: unknown };
  if (REFUSALS.has(errno) || REFUSALS.has(code)) return 'full';
  if (code === 'ECONNREFUSED') return 'leaving';
  return code === 'ETIMEDOUT' ? 'silent' : 'unknown';
}

/**
 * How many calls a server can carry: as many as it may have connections, or, since it refused one, as many as it gave. It
 * is tried again with one connection after a while; each time all that were tried were given, twice as many are.
 */
export class ConnectionCap {
  readonly #clock: Clock;
  readonly #limit: number;
  #capacity: number;
  #changed: (() => void) | undefined;
  /** Until one more connection is tried. Unset while none was refused, or more are being tried. */
  #timer: Timer | undefined;
  #isCrowded = false;

  constructor(clock: Clock, limit: number) {
    this.#capacity = limit;
    this.#clock = clock;
    this.#limit = limit;
  }

  get capacity(): number {
    return this.#capacity;
  }

  /** `changed` is called whenever `capacity` has changed. */
  watch(changed: () => void): void {
    this.#changed = changed;
  }

  get isCrowded(): boolean {
    return this.#isCrowded;
  }

  /** A connection was refused. `open`: those it gave; more may still be on their way. */
  refused(open: number): void {
    this.#isCrowded = true;
    // Not from anew at each refusal: questions beside the calls would put off the trial for ever.
    this.#timer ??= this.#clock.timer(() => {
      this.#timer = undefined;
      this.#set(this.#capacity + 1);
    }, CROWDED_MS);
    this.#set(Math.max(1, open));
  }

  /** It gave another one. `open`: all it gave. */
  opened(open: number): void {
    if (!this.#isCrowded || open < this.#capacity) return;
    this.#set(this.#timer === undefined ? 2 * open : open);
  }

  close(): void {
    this.#timer?.cancel();
  }

  #set(capacity: number): void {
    const next = Math.min(capacity, this.#limit);
    if (next === this.#limit && this.#timer === undefined) this.#isCrowded = false;
    if (next === this.#capacity) return;
    this.#capacity = next;
    this.#changed?.();
  }
}
