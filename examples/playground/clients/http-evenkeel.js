// @ts-check
/** The same fetch, with a dispatcher that knows the pods and picks one for every request. */
import { endpointSlices } from 'evenkeel/kubernetes';
import { createDispatcher } from 'evenkeel/undici';
import { podsSetAside } from './evenkeel.js';
import { askOver } from './http.js';
import { chosen } from './pickers.js';

/** @type {import('./client.js').CreateClient} */
export const createClient = async ({ apiServerUrl, namespace, service, picker }) => {
  const origin = `http://${service}.${namespace}`;
  // In a cluster `createDispatcher(origin)` is enough: it finds the API server and its credentials by itself.
  const dispatcher = createDispatcher(origin, {
    resolver: endpointSlices({
      namespace,
      service,
      port: 'http',
      apiServer: apiServerUrl,
      allowAddresses: ['loopback'],
    }),
    ...chosen(picker),
  });
  await dispatcher.balancer.ready();
  return {
    // The types of Node's own undici and of the installed one differ; at run time the dispatcher serves both.
    ask: askOver((path, init) => fetch(new URL(path, origin), /** @type {any} */ ({ ...init, dispatcher }))),
    setAside: () => podsSetAside(dispatcher.balancer),
  };
};
