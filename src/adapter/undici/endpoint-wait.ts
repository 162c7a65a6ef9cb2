import type { Readable } from 'node:stream';
import type { Pool } from 'undici';
import type { Lease } from '../../index.js';
import type { TriedEndpoints } from '../kit/index.js';
import type { CallOwner } from './call-owner.js';

/** A call that has to wait for an endpoint. */
export interface EndpointWait {
  readonly owner: CallOwner;
  readonly key: string | undefined;
  readonly tried: TriedEndpoints<Pool> | undefined;
  /** Its body, if that is a stream. */
  readonly body: Readable | undefined;
  /** An attempt has failed just now. */
  readonly isRepeat: boolean;
  readonly bodyFailed: (error: Error) => void;
  /** Has to end the lease or use it. */
  readonly got: (lease: Lease<Pool>) => void;
  readonly failed: (error: Error) => void;
}

/** Waits until there is an endpoint or it is clear that there is none. An abort ends the waiting: then it has failed. */
export function waitForEndpoint(wait: EndpointWait): AbortController {
  const { owner, key, tried, body, bodyFailed } = wait;
  const waiting = new AbortController();
  owner.waits();
  // undici watches the body only while it has the request: nobody else would hear it fail meanwhile.
  body?.on('error', bodyFailed);
  const ended = (): void => {
    body?.off('error', bodyFailed);
    owner.served();
  };
  const acquire = async (): Promise<Lease<Pool>> => {
    // A pod that failed just now is taken out within this turn; only then is it clear who is left.
    if (wait.isRepeat) await undefined;
    return owner.balancer.acquire({ key, avoid: tried?.avoid, signal: waiting.signal });
  };
  acquire().then(
    (lease) => {
      ended();
      wait.got(lease);
    },
    (error) => {
      ended();
      wait.failed(error);
    },
  );
  return waiting;
}
