import { type Client, createClient, type Transport } from '@connectrpc/connect';
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { type ObserverEvents, roundRobin, staticEndpoints } from 'evenkeel';
import {
  createHttp2Client,
  createSessionManager,
  type Http2Options,
  type ServiceHttp2Client,
  type ServiceSessionManager,
} from 'evenkeel/http2';
import type { ConnectPod } from '../../../support/pods/connect-pods.js';
import { Orders, type OrdersService } from '../../../support/pods/orders-service.mjs';
import { until } from '../../../support/until.js';

export type OrdersClient = Client<OrdersService>;

/** The URL that the clients of tests know. No pod is at its address. */
export const origin = 'http://orders.shop:8080';

export type Protocol = 'Connect' | 'gRPC' | 'gRPC-web';
export const protocols: readonly Protocol[] = ['Connect', 'gRPC', 'gRPC-web'];

const transports = { Connect: createConnectTransport, gRPC: createGrpcTransport, 'gRPC-web': createGrpcWebTransport };

/** How the attempts of calls ended. */
export type Attempts = ObserverEvents['attemptEnded'][];

function balancing(pods: readonly Pick<ConnectPod, 'endpoint'>[], attempts: Attempts): Http2Options {
  return {
    ...(pods.length > 0 && { resolver: staticEndpoints(pods.map(({ endpoint }) => endpoint)) }),
    picker: roundRobin(),
    observer: { attemptEnded: (event) => void attempts.push(event) },
  };
}

/** A client of Connect over a session manager that takes turns among the pods and is connected to all of them. */
export async function ordersOver(
  pods: readonly ConnectPod[],
  protocol: Protocol = 'Connect',
  options: Http2Options = {},
  baseUrl: string = origin,
): Promise<{ orders: OrdersClient; manager: ServiceSessionManager; attempts: Attempts }> {
  const attempts: Attempts = [];
  const manager = createSessionManager(baseUrl, { ...balancing(pods, attempts), ...options });
  if (options.resolver === undefined) await connected(manager, pods.length);
  return { orders: clientOf(manager, protocol), manager, attempts };
}

/** A client of Connect over this session manager. */
export function clientOf(manager: ServiceSessionManager, protocol: Protocol = 'Connect'): OrdersClient {
  return createClient(Orders, transportOf(protocol, manager.authority, manager));
}

/** The transport of Connect itself without `sessionManager`. */
export function transportOf(protocol: Protocol, baseUrl: string, sessionManager?: ServiceSessionManager): Transport {
  const more = sessionManager === undefined ? {} : { sessionManager };
  return transports[protocol]({ baseUrl, httpVersion: '2', useHttpGet: true, ...more });
}

/** A client for requests of `node:http2`, likewise. */
export async function http2Over(
  pods: readonly Pick<ConnectPod, 'endpoint'>[],
  options: Http2Options = {},
): Promise<{ http2: ServiceHttp2Client; attempts: Attempts }> {
  const attempts: Attempts = [];
  const http2 = createHttp2Client(origin, { ...balancing(pods, attempts), ...options });
  await connected(http2, pods.length);
  return { http2, attempts };
}

export function connected({ balancer }: Pick<ServiceHttp2Client, 'balancer'>, count: number): Promise<void> {
  return until(
    `${count} pods are connected`,
    () => balancer.snapshot().endpoints.filter(({ state }) => state === 'ready').length === count,
  );
}

/** Calls whose lease has not ended. */
export const inFlight = ({ balancer }: Pick<ServiceHttp2Client, 'balancer'>): number =>
  balancer.snapshot().endpoints.reduce((sum, endpoint) => sum + endpoint.inFlight, 0);

/** All messages of a stream. */
export async function all(messages: AsyncIterable<{ readonly value: string }>): Promise<string[]> {
  const values: string[] = [];
  for await (const { value } of messages) values.push(value);
  return values;
}

/** A stream of messages. */
export async function* messages(...values: readonly string[]): AsyncGenerator<{ value: string }> {
  for (const value of values) yield { value };
}

/** The name of the pod that sent a message. */
export const podOf = ({ value }: { readonly value: string }): string => value.split(' ')[0] as string;

/** What is left of a response once it is over. */
export async function bodyOf(stream: AsyncIterable<Buffer>): Promise<string> {
  let text = '';
  for await (const chunk of stream) text += chunk;
  return text;
}
