import type { Agent } from 'node:http';
import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import type { Balancer, BalancingOptions } from '../../index.js';
import {
  type Complete,
  leaveCodeOption,
  type OptionTable,
  optionTable,
  type PlacingOptions,
  type SocketPlacerOptions,
} from '../kit/index.js';

/**
 * Options of a Service's WebSockets: how the pod of each is found and picked, and what happens to open ones when their pod leaves. All are
 * optional.
 */
export interface WebSocketsOptions
  extends BalancingOptions,
    PlacingOptions<WebSocket | Socket>,
    Pick<SocketPlacerOptions, 'tls'> {
  /**
   * The code with which a WebSocket that should leave its pod is closed. The server sees the code, and the application in its `close`
   * event. Codes that may not be sent (1004 to 1006, 1015 to 2999) are refused. @defaultValue 1012, "Service Restart"
   */
  readonly leaveCode?: number | undefined;
}

/** Opens WebSockets to the pods of a Service. */
export interface ServiceWebSockets extends AsyncDisposable {
  /** The WebSockets' balancer: `ready()` waits for a pod, `snapshot()` returns the current state. */
  readonly balancer: Balancer<unknown>;
  /**
   * The class `WebSocket` of `ws`, whose instances connect to the pod with the fewest WebSockets. An instance that should leave its pod
   * emits `leaving` with a `ConnectionLeaving`. URLs of other servers bypass evenkeel.
   */
  readonly WebSocket: typeof WebSocket;
  /** An `http.Agent` for libraries that create WebSockets by themselves (`socket.io-client`). Requests to other servers bypass evenkeel. */
  readonly agent: Agent;
  /** Opens no new connection. Open WebSockets are told to leave and may stay for `pool.drainTimeoutMs`, or until `signal` aborts. */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}

/** The default code with which a WebSocket that should leave its pod is closed. */
export const LEAVE_CODE = 1012;
export const LEAVE_REASON = 'Service Restart';

export const webSocketsTable: OptionTable<Complete<Pick<WebSocketsOptions, 'leaveCode'>>> = optionTable('options', {
  leaveCode: leaveCodeOption(LEAVE_CODE),
});
