import { hash32 } from '../runtime/hash.js';

/**
 * Divides slots among endpoints evenly, give or take one. Endpoints take turns, and each takes the next free slot in an order of its own.
 * Everyone who knows the endpoints computes the same result. When an endpoint comes or goes, little more than its own share of the slots
 * changes hands.
 * Source: Eisenbud et al., Maglev: A Fast and Reliable Software Network Load Balancer, NSDI 2016, section 3.4.
 *
 * @param names The endpoints' names, at least one, in the same order for everyone.
 * @returns For each slot, the index of the endpoint that it belongs to.
 */
export function divideSlots(names: readonly string[], slots: number): Int32Array {
  // With a prime number of positions, a walk with any step size visits all of them. Positions behind the last slot are skipped.
  const length = primeFrom(slots);
  const position = names.map((name) => (hash32(name, 1) >>> 0) % length);
  const step = names.map((name) => ((hash32(name, 2) >>> 0) % Math.max(1, length - 1)) + 1);
  const owners = new Int32Array(slots).fill(-1);
  for (let taken = 0; taken < slots; taken++) {
    const index = taken % names.length;
    let at = position[index] as number;
    while (at >= slots || owners[at] !== -1) at = (at + (step[index] as number)) % length;
    owners[at] = index;
    position[index] = at;
  }
  return owners;
}

function primeFrom(least: number): number {
  for (let number = Math.max(2, least); ; number++) if (isPrime(number)) return number;
}

function isPrime(number: number): boolean {
  for (let divisor = 2; divisor * divisor <= number; divisor++) if (number % divisor === 0) return false;
  return true;
}
