import type { Agent } from 'node:http';
import { type Send, trafficPath } from '../../undici/support/traffic.js';
import { send } from './request.js';

/** Requests of `http.request` over an agent. A POST has a body. */
export function over(agent: Agent, origin: string, path: string = trafficPath): Send {
  return async (method, id) => {
    const body = method === 'POST' ? { body: `order ${id}` } : {};
    return (await send(agent, `${origin}${path}`, { method, headers: { 'x-id': id }, ...body })).status;
  };
}
