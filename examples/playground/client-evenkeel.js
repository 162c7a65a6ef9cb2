// @ts-check
/** The same fetch, with a dispatcher that knows the pods and picks one for every request. */
import { endpointSlices } from 'evenkeel/kubernetes';
import { createDispatcher } from 'evenkeel/undici';
import { pickers } from './pickers.js';

/** @type {import('./client.js').CreateClient} */
export const createClient = async ({ apiServerUrl, namespace, service, picker }) => {
  const origin = `http://${service}.${namespace}`;
  const dispatcher = createDispatcher(origin, {
    // In a cluster `createDispatcher(origin)` is enough: it finds the API server and its credentials by itself.
    resolver: endpointSlices({
      namespace,
      service,
      port: 'http',
      apiServer: apiServerUrl,
      allowAddresses: ['loopback'],
    }),
    ...(picker === undefined ? {} : { picker: pickers[picker]?.() }),
  });
  await dispatcher.balancer.ready();
  return { send: (path, init) => fetch(new URL(path, origin), { ...init, dispatcher }) };
};
