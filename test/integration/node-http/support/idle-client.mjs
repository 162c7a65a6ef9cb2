/**
 * Sends a request per port given, through the built package, prints what came back and does nothing more. It does not
 * close its agent: the process has to end by itself. `none` sends nothing, `axios` uses that.
 */
import { get } from 'node:http';
import axios from 'axios';
import { staticEndpoints } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';

const [how, ...ports] = process.argv.slice(2);
const resolver = staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port: Number(port) })));
const origin = 'http://orders.shop:8080';
const agent = createAgent(origin, { resolver });
await agent.balancer.ready();

const send = {
  none: undefined,
  axios: async () => (await axios.get(`${origin}/`, { httpAgent: agent, proxy: false })).status,
  request: () =>
    new Promise((resolve, reject) => {
      get(`${origin}/`, { agent }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode));
      }).on('error', reject);
    }),
}[how];
if (send !== undefined) for (const _ of ports) console.log(await send());
console.log('done');
