import { Client, type Dispatcher } from 'undici';

/**
 * One socket of a pod's Pool. undici's Client answers false, "busy, wait for my drain", also for a request it refused
 * outright (a header with a line break, say). Nothing runs on it then, so no drain ever comes and its Pool never uses
 * it again: a few refused requests leave no client at all, and all that follow wait for ever. Seen in undici 7 and 8.
 */
export class PodClient extends Client {
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    // The first versions of undici 7 do not tell the size; there it stays as undici made it.
    return super.dispatch(options, handler) || this.stats?.size === 0;
  }
}
