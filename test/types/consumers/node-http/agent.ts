import * as http from 'node:http';
import * as https from 'node:https';
import { hash, staticEndpoints } from 'evenkeel';
import { type AgentOptions, createAgent, type HttpServiceAgent, nodeHttpTransport } from 'evenkeel/node-http';

const resolver = staticEndpoints([{ address: '10.0.0.1', port: 80 }]);
const options: AgentOptions = { resolver, picker: hash(), key: ({ path }) => path };

// What clients take: an http.Agent, and for https: targets an https.Agent.
const plain: http.Agent = createAgent('http://orders.shop:8080', options);
const secure: https.Agent = createAgent('https://orders.shop:8443', { ...options, tls: { ca: '' } });
http.get('http://orders.shop:8080/', { agent: plain });
https.get('https://orders.shop:8443/', { agent: secure });

const orders: HttpServiceAgent = createAgent(new URL('http://orders.shop:8080'), { fallbackAgent: plain });
const state: string | undefined = orders.balancer.snapshot().endpoints[0]?.state;
orders.destroy();
void [state, orders.balancer.ready(), orders.close(), orders[Symbol.asyncDispose]()];
void nodeHttpTransport({ origin: 'http://orders.shop:8080', connections: 4 });

// @ts-expect-error: an option of Node's own Agent
createAgent('http://orders.shop:8080', { maxSockets: 3 });
// @ts-expect-error: an http.Agent cannot be used for https: requests
const wrong: https.Agent = createAgent('http://orders.shop:8080', options);
void wrong;
