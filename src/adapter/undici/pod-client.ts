import { Client, type Dispatcher } from 'undici';

/** Where the first versions of undici 7 keep how many requests a client has; they have no `stats` yet. */
const sizeSymbol = Object.getOwnPropertySymbols(Client.prototype).find(({ description }) => description === 'size');

/**
 * One socket of a pod's Pool. undici's Client answers false, "busy, wait for my drain", also for a request it refused
 * outright (a header with a line break, say). Nothing runs on it then, so no drain ever comes and its Pool never uses
 * it again: a few refused requests leave no client at all, and all that follow wait for ever. Seen in undici 7 and 8.
 */
export class PodClient extends Client {
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    return super.dispatch(options, handler) || this.#size() === 0;
  }

  #size(): number | undefined {
    const { stats } = this as Partial<Pick<Client, 'stats'>>;
    if (stats !== undefined) return stats.size;
    return sizeSymbol && (this as unknown as Record<symbol, number>)[sizeSymbol];
  }
}
