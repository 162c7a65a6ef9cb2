import { hash32, mix32 } from '../runtime/hash.js';

/**
 * How even whole copies have to be: an endpoint's share of the load is off by about 1 / (endpoints per client × √copies), which must
 * not be more than one in this many.
 */
const EVEN_ENOUGH = 50;
/** How often an endpoint draws a client before it takes the next one that has room. */
const MAX_DRAWS = 64;
/** Odd, so that numbers times this are all different: a Weyl sequence. */
const STEP = 0x9e3779b1;

/**
 * Divides endpoints among clients: each client gets the same amount of them, and each endpoint goes to `copies` clients. Everybody
 * who knows the endpoints comes to the same result. Most copies stay where they are when an endpoint comes or goes, or the number of
 * clients changes.
 *
 * In turn each endpoint draws clients, always the same ones, until one has room for a copy of it. Where so few copies would be
 * uneven, one that has room for a part takes that part, and the rest goes on: that costs up to one more connection per client.
 *
 * Filling places in turn is Maglev's (Eisenbud et al., NSDI 2016, section 3.4); the draws are those of jump consistent hashing
 * (Lamping, Veach, 2014), which moves 1 / n of them to client number n; parts of endpoints are from Finagle's deterministic
 * aperture.
 *
 * @param names Of the endpoints, at least one, in an order that is the same for everybody.
 * @param copies Below `clients`.
 * @returns The amount of each endpoint that client number `index` gets, by the endpoint's index; above 1 if it got it twice.
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
  // In parts of 1 / clients of an endpoint, so that all amounts are whole numbers.
  const copy = isWhole ? 1 : clients;
  const room = new Float64Array(clients).fill(isWhole ? Math.floor(total / clients) : total);
  if (isWhole) for (let client = 0; client < total % clients; client++) room[client] = (room[client] as number) + 1;
  const seeds = names.map((name) => hash32(name, 1));
  const drawn = new Uint32Array(length);
  /** By endpoint and client: who has a copy of it already. */
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
          // If nobody else has room for it: twice.
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

/** A number below `buckets`, evenly; with one more bucket it changes in one of that many cases, to the new one. */
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
