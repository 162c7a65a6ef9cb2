import type { Duplex } from 'node:stream';
import type { Dispatcher, Pool } from 'undici';
import { outcomes } from '../../index.js';
import { type Attempts, type CallLease, closeFrame, type Placements } from '../kit/index.js';
import { type WebSocketOptions, webSocketTable } from './options.js';

/** The dispatcher's part that holds upgraded connections. */
export interface UpgradeOwner {
  readonly placements: Placements;
  readonly webSocket: WebSocketOptions;
}

/** A connection that was upgraded and became its caller's own, with the request that asked for the upgrade. */
interface Upgraded {
  readonly status: number;
  readonly socket: Duplex;
  readonly options: Dispatcher.DispatchOptions;
}

/** Holds the lease of a request whose connection was upgraded until that connection is closed. */
export function holdUpgraded(owner: UpgradeOwner, attempts: Attempts<Pool>, upgraded: Upgraded): void {
  const { status, socket, options } = upgraded;
  const outcome = status >= 500 ? outcomes.status : outcomes.success;
  attempts.answeredWith(status);
  const lease = attempts.conclude(outcome);
  if (lease === undefined) return;
  lease.progressed();
  // The upgraded connection may end hours from now, so the endpoint's success is confirmed at once.
  if (outcome === outcomes.success) lease.confirm();
  const released = options.upgrade === 'websocket' ? placed(owner, lease, socket, options) : undefined;
  socket.once('close', () => {
    released?.();
    lease.end(outcome);
    attempts.report(lease);
  });
}

/**
 * Places a WebSocket, which leaves its pod as the options of its request or of the dispatcher say. Only its connection is known here. Call
 * the result when the connection is closed.
 */
function placed(
  { placements, webSocket }: UpgradeOwner,
  lease: CallLease<Pool>,
  socket: Duplex,
  request: Dispatcher.DispatchOptions,
): () => void {
  const { leaveCode = webSocketTable.defaults.leaveCode } = webSocket;
  const { onLeaving = webSocket.onLeaving } = request as Pick<WebSocketOptions, 'onLeaving'>;
  return placements.hold(lease, {
    leave: (leaving) => {
      onLeaving?.(leaving, socket);
      return onLeaving !== undefined;
    },
    finish: () => void socket.write(closeFrame(leaveCode, '')),
    cut: () => void socket.destroy(),
  });
}
