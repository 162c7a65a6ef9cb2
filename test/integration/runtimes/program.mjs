// Run by Bun or Deno: what evenkeel does there. The ports of two pods are its arguments.
import { get } from 'node:http';
import { staticEndpoints } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { appInterceptor, createAppAgent, createDispatcher, createFetch } from 'evenkeel/undici';

const origin = 'http://orders.shop:8080';
const resolver = staticEndpoints(process.argv.slice(2).map((port) => ({ address: '127.0.0.1', port: Number(port) })));
const refused = [];
for (const create of [createFetch, createDispatcher, createAppAgent, appInterceptor]) {
  try {
    create(origin, { resolver });
  } catch (error) {
    refused.push(`${create.name} ${error.code} ${error.message.includes('evenkeel/node-http works there')}`);
  }
}

const agent = createAgent(origin, { resolver });
await agent.balancer.ready();
const pods = {};
for (let turn = 0; turn < 40; turn++) {
  const body = await new Promise((resolve, reject) => {
    const request = get(`${origin}/`, { agent }, (response) => {
      let text = '';
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => resolve(text));
    });
    request.on('error', reject);
  });
  const { pod, host } = JSON.parse(body);
  pods[`${pod} ${host}`] = (pods[`${pod} ${host}`] ?? 0) + 1;
}
await agent.close();
console.log(JSON.stringify({ refused, pods }));
process.exit(0);
