import { hash32, mix32 } from '../runtime/hash.js';

/**
 * Endpoints are divided as a whole only if their load then deviates by at most one part in this many. It deviates by about 1 / (endpoints
 * per client × √copies).
 */
const EVEN_ENOUGH = 50;
/** How many clients an endpoint draws before it simply takes the next client that has room. */
const MAX_DRAWS = 64;
/** The step between the numbers of a Weyl sequence. It is odd, so that its multiples all differ. */
const STEP = 0x9e3779b1;

/**
 * Divides endpoints among clients: each client gets the same amount of endpoints, and each endpoint goes to `copies` clients. Everyone who
 * knows the endpoints computes the same result. When an endpoint comes or goes, or the number of clients changes, most copies stay where
 * they are.
 *
 * Endpoints take turns. Each draws clients, always in the same order, until one has room for a copy. If there are so few copies that whole
 * ones would be uneven, a client with room for only a part takes that part and the rest goes to further clients, which costs up to one more
 * connection per client.
 *
 * Taking turns is from Maglev (Eisenbud et al., NSDI 2016, section 3.4); the draws are those of jump consistent hashing (Lamping, Veach,
 * 2014), of which 1 / n change when client number n is added; parts of endpoints are from Finagle's deterministic aperture.
 *
 * @param names The endpoints' names, at least one, in the same order for everyone.
 * @param copies How many clients each endpoint goes to; less than `clients`.
 * @returns How much of each endpoint client number `index` gets, by the endpoint's index; above 1 if it got the endpoint twice.
 */
export function endpointShares(
  names: readonly string[],
  copies: number,
  clients: number,
  index: number,
): Map<number, number> {
  const { length } = names;
  const total = length * copies;
  const isWhole = (total / clients) * Math.sqrt(copies) >= EVEN_ENOUGH;
  // Amounts are in units of 1 / clients of an endpoint, so that all are integers.
  const copy = isWhole ? 1 : clients;
  const room = new Float64Array(clients).fill(isWhole ? Math.floor(total / clients) : total);
  if (isWhole) for (let client = 0; client < total % clients; client++) room[client] = (room[client] as number) + 1;
  const seeds = names.map((name) => hash32(name, 1));
  const drawn = new Uint32Array(length);
  /** Pairs of an endpoint and a client that already has a copy of it, as one number. */
  const has = new Set<number>();
  const shares = new Map<number, number>();
  for (let turn = 0; turn < copies; turn++) {
    for (let endpoint = 0; endpoint < length; endpoint++) {
      for (let left = copy; left > 0; ) {
        let client = 0;
        for (let tried = 0; ; tried++) {
          if (tried < MAX_DRAWS) {
            drawn[endpoint] = (drawn[endpoint] as number) + 1;
            client = jump(mix32(seeds[endpoint] as number, Math.imul(drawn[endpoint] as number, STEP)), clients);
          } else client = (client + 1) % clients;
          if (room[client] === 0) continue;
          // A client gets an endpoint a second time only if no other client has room.
          if (tried > MAX_DRAWS + clients || !has.has(endpoint * clients + client)) break;
        }
        has.add(endpoint * clients + client);
        const taken = Math.min(left, room[client] as number);
        room[client] = (room[client] as number) - taken;
        left -= taken;
        if (client === index) shares.set(endpoint, (shares.get(endpoint) ?? 0) + taken / copy);
      }
    }
  }
  return shares;
}

/**
 * Returns a number below `buckets`, evenly distributed over all hashes. With one bucket more, 1 / buckets of all hashes get another result,
 * namely the new bucket.
 */
function jump(hash: number, buckets: number): number {
  let state = hash;
  let bucket = 0;
  for (let next = 0; next < buckets; ) {
    bucket = next;
    state = (Math.imul(state, 0xaaa5a6ad) + 1) | 0;
    next = Math.floor((bucket + 1) * (4_294_967_296 / ((mix32(state, 0) >>> 0) + 1)));
  }
  return bucket;
}
