/**
 * Numbers for the connections of one channel to each pod. grpc-js shares a subchannel between all users with the same address and
 * arguments. The number is one of these arguments: a replacement or second connection gets another one, and the first connections of
 * two clients of one Service are shared.
 */
export class ConnectionNumbers {
  readonly #taken = new Map<string, Set<number>>();

  /** The lowest free number of `key`. */
  take(key: string): number {
    let taken = this.#taken.get(key);
    if (taken === undefined) {
      taken = new Set();
      this.#taken.set(key, taken);
    }
    let number = 0;
    while (taken.has(number)) number++;
    taken.add(number);
    return number;
  }

  free(key: string, number: number): void {
    const taken = this.#taken.get(key);
    if (taken?.delete(number) && taken.size === 0) this.#taken.delete(key);
  }

  /** Endpoints with a number in use; for tests. */
  get size(): number {
    return this.#taken.size;
  }
}
