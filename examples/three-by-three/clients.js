// @ts-check
/** The two clients that are compared. Each has its own connections and is used for one trial. */
import { endpointSlices } from 'evenkeel/kubernetes';
import { createDispatcher } from 'evenkeel/undici';
import { Agent, request } from 'undici';

/** @typedef {{ url: string, dispatcher: import('undici').Dispatcher }} Client */

/** Keep-alive to the Service's address, one connection. @param {string} serviceUrl @returns {Client} */
export const ordinaryClient = (serviceUrl) => ({ url: serviceUrl, dispatcher: new Agent({ connections: 1 }) });

/** evenkeel, with its defaults. @param {string} apiServerUrl @returns {Client} */
export const evenkeelClient = (apiServerUrl) => ({
  url: 'http://orders.shop',
  dispatcher: createDispatcher('http://orders.shop', {
    resolver: endpointSlices({
      namespace: 'shop',
      service: 'orders',
      port: 'http',
      apiServer: apiServerUrl,
      allowAddresses: ['loopback'],
    }),
  }),
});

/** Sends one request after the other; resolves with the names of the pods that answered. @param {Client} client @param {number} requests */
export async function podsReached({ url, dispatcher }, requests) {
  const pods = new Set();
  for (let index = 0; index < requests; index++) {
    const { statusCode, body } = await request(url, { dispatcher });
    const pod = await body.text();
    if (statusCode !== 200) throw new Error(`a pod answered ${statusCode}`);
    pods.add(pod);
  }
  await dispatcher.close();
  return pods;
}
