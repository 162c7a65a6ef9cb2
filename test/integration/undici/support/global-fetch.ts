import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Agent, type Dispatcher, getGlobalDispatcher, setGlobalDispatcher } from 'undici';

class Witness extends Agent {
  used = false;

  override dispatch(options: Agent.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.used = true;
    return super.dispatch(options, handler);
  }
}

/** How far the fetch of this Node and the undici under test go together, without us. */
async function probe(): Promise<{ readonly reaches: boolean; readonly shows: boolean }> {
  const server = createServer((_request, response) => response.setHeader('x-there', 'yes').end()).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const former = getGlobalDispatcher();
  const witness = new Witness();
  setGlobalDispatcher(witness);
  try {
    await (await fetch(url)).text();
    const reaches = witness.used;
    const shows = await fetch(url, { dispatcher: witness } as never).then(
      async (response) => {
        await response.text();
        return response.headers.has('x-there');
      },
      // An undici 8 takes no handler of the fetch of Node 22 or 24. Through us it gets the newer form, and shows them.
      () => true,
    );
    return { reaches, shows };
  } finally {
    setGlobalDispatcher(former);
    await witness.close();
    server.closeAllConnections();
    server.close();
  }
}

const { reaches, shows } = await probe();

/** Whether `setGlobalDispatcher` reaches that fetch: Node 26 hears undici from 7.27 on. */
export const reachesGlobalFetch: boolean = reaches;

/** Whether undici's own Agent shows it the headers of an answer: Node 26 sees those of undici from 7.28 on. */
export const agentShowsHeaders: boolean = shows;
