// @ts-check
/** Stock grpc-js as its documentation recommends for Kubernetes: a headless Service's name and the round_robin policy. */
import { askOver, serviceConfig } from './grpc.js';

// grpc-js looks a name up when a connection is lost, and never twice within 30 s. Pods live a tenth as long here as in a cluster,
// so this is shortened too; otherwise grpc-js would have no pod for most of a rolling update.
const LOOK_UP_AGAIN_AFTER_MS = 3_000;

/** @type {import('./client.js').CreateClient} */
export const createClient = async ({ headless }) => {
  if (headless === undefined) throw new Error('there is no headless Service here');
  const { host, dnsServer, ports } = headless;
  return {
    // grpc-js queries the server in the target if GRPC_NODE_USE_ALTERNATIVE_RESOLVER is set.
    ask: askOver(`dns://${dnsServer}/${host}:${ports.grpc}`, {
      'grpc.service_config': serviceConfig([{ round_robin: {} }]),
      'grpc.dns_min_time_between_resolutions_ms': LOOK_UP_AGAIN_AFTER_MS,
    }),
  };
};
