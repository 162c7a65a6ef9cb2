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

/** How the pod of each WebSocket is found and picked, and what happens to open ones when their pod leaves. All may be left out. */
export interface WebSocketsOptions
  extends BalancingOptions,
    PlacingOptions<WebSocket | Socket>,
    Pick<SocketPlacerOptions, 'tls'> {
  /**
   * The close code of a WebSocket that should leave. Servers see it, and the application in its `close` event. Codes that may not
   * be sent (1004 to 1006, 1015 to 2999) are refused. @defaultValue 1012, "Service Restart"
   */
  readonly leaveCode?: number | undefined;
}

/** WebSockets to the pods of a Service. */
export interface ServiceWebSockets extends AsyncDisposable {
  /** State and control of the WebSockets' balancer: `ready()`, `snapshot()`. */
  readonly balancer: Balancer<unknown>;
  /**
   * The class `WebSocket` of `ws`, whose instances go to the pod with the fewest. One that should leave emits `leaving` with a
   * `ConnectionLeaving`. URLs of other servers bypass evenkeel.
   */
  readonly WebSocket: typeof WebSocket;
  /**
   * For libraries that create WebSockets by themselves and take an `http.Agent` (`socket.io-client`). Requests to other servers bypass
   * evenkeel.
   */
  readonly agent: Agent;
  /**
   * Opens no new connection. Open ones are told to leave and may stay for `pool.drainTimeoutMs`, or until `signal` aborts.
   */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}

/** The default close code of a WebSocket that should leave. */
export const LEAVE_CODE = 1012;
export const LEAVE_REASON = 'Service Restart';

export const webSocketsTable: OptionTable<Complete<Pick<WebSocketsOptions, 'leaveCode'>>> = optionTable('options', {
  leaveCode: leaveCodeOption(LEAVE_CODE),
});
