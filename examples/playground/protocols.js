// @ts-check
/** What is compared: for each protocol its clients, in display order; gRPC first, where the difference is plain. The ordinary client is first, evenkeel last. */
import { database, orders } from './workloads.js';

/**
 * @typedef {object} Shown how a client is presented
 * @property {string} name
 * @property {string} title
 * @property {string} connections what it keeps, in the plural
 * @property {string} how where its requests go
 * @property {boolean} throughService
 * @property {string} [sameAs] the client whose file this one is: all that differs is `--require evenkeel/register`
 * @property {boolean} [overDns] needs a headless Service, hence pods with addresses of their own
 */

/**
 * @typedef {object} Protocol
 * @property {string} name
 * @property {string} title
 * @property {string} key of the keyboard
 * @property {string} requests what is sent, in the plural
 * @property {number} perSecond how many of them each client sends, if nothing else was asked for
 * @property {number} serviceTimeMs the mean work of a pod on one of them
 * @property {boolean} [longLived] its connections live for hours: what is spread is they, and not what is sent over them
 * @property {import('./workloads.js').Workload} workload who serves it
 * @property {readonly Shown[]} clients
 */

/** Whether evenkeel balances what this client sends. @param {string} client */
export const isBalanced = (client) => client === 'evenkeel' || client === 'registered';

/** @type {readonly Protocol[]} */
export const protocols = [
  {
    name: 'grpc',
    title: 'gRPC',
    key: '1',
    requests: 'calls',
    // One pod alone can just handle it, so pick_first is slow but does not fail all the time.
    perSecond: 120,
    serviceTimeMs: 5,
    workload: orders,
    clients: [
      {
        name: 'ordinary',
        title: 'Stock grpc-js',
        connections: 'HTTP/2 connections',
        how: 'through the Service',
        throughService: true,
      },
      {
        name: 'round-robin',
        title: 'Stock round_robin',
        connections: 'HTTP/2 connections',
        how: 'over headless DNS',
        throughService: false,
        overDns: true,
      },
      {
        name: 'evenkeel',
        title: 'evenkeel',
        connections: 'HTTP/2 connections,',
        how: 'a pod picked per call',
        throughService: false,
      },
    ],
  },
  {
    name: 'http',
    title: 'HTTP',
    key: '2',
    requests: 'requests',
    // Five pods of one core are about half busy, if the work is spread: enough for queues where it is not.
    perSecond: 200,
    serviceTimeMs: 12,
    workload: orders,
    clients: [
      {
        name: 'ordinary',
        title: 'Ordinary client',
        connections: 'keep-alive connections',
        how: 'through the Service',
        throughService: true,
      },
      {
        name: 'registered',
        title: 'The same, --require',
        connections: 'keep-alive connections,',
        how: 'evenkeel/register, no code',
        throughService: false,
        sameAs: 'ordinary',
      },
      {
        name: 'evenkeel',
        title: 'evenkeel',
        connections: 'keep-alive connections,',
        how: 'a pod picked per request',
        throughService: false,
      },
    ],
  },
  {
    name: 'mysql',
    title: 'MySQL',
    key: '3',
    requests: 'queries',
    perSecond: 120,
    serviceTimeMs: 5,
    workload: database,
    clients: [
      {
        name: 'ordinary',
        title: 'Ordinary pool',
        connections: 'connections',
        how: 'through the Service',
        throughService: true,
      },
      {
        name: 'pool-cluster',
        title: 'Stock PoolCluster',
        connections: 'connections,',
        how: 'nodes from DNS at the start',
        throughService: false,
        overDns: true,
      },
      {
        name: 'evenkeel',
        title: 'evenkeel',
        connections: 'connections,',
        how: 'a server picked per query',
        throughService: false,
      },
    ],
  },
  {
    name: 'websocket',
    title: 'WebSocket',
    key: '4',
    requests: 'messages',
    perSecond: 60,
    serviceTimeMs: 5,
    longLived: true,
    workload: orders,
    clients: [
      {
        name: 'ordinary',
        title: 'Stock ws',
        connections: 'WebSockets',
        how: 'through the Service',
        throughService: true,
      },
      {
        name: 'evenkeel',
        title: 'evenkeel',
        connections: 'WebSockets,',
        how: 'placed, told, evened out',
        throughService: false,
      },
    ],
  },
];
