/**
 * How a client of the fleet sends its calls, by protocol.
 *
 * @typedef {'http' | 'grpc' | 'postgres'} Protocol
 *
 * @typedef {object} Placed  A contender and where its pods are.
 * @property {Protocol} protocol
 * @property {string} kind of the `kinds` of its protocol; `stock` has a balancer of connections in front of its pods
 * @property {readonly number[]} ports of its pods, or of what stands in front of them
 *
 * @typedef {object} Contender
 * @property {(workMs: number) => Promise<unknown>} call one call, to the end of its answer
 * @property {() => void} [renew] opens its connections anew
 * @property {() => Promise<unknown>} close
 *
 * @typedef {Readonly<Record<string, (ports: readonly number[]) => Contender>>} Kinds
 */

/** Loads only what the protocol takes. @param {Placed} placed @returns {Promise<Contender>} */
export async function createContender({ protocol, kind, ports }) {
  const { kinds } = /** @type {{ kinds: Kinds }} */ (await import(`./fleet-${protocol}.mjs`));
  const create = kinds[kind];
  if (create === undefined) throw new Error(`there is no ${kind} over ${protocol}`);
  return create(ports);
}
