import { networkInterfaces } from 'node:os';

/** A family of IP addresses, written as in the field `addressType` of an EndpointSlice. */
export type AddressFamily = 'IPv4' | 'IPv6';

/** An address of a network interface, as `os.networkInterfaces()` lists it. */
export interface InterfaceAddress {
  readonly address: string;
  readonly family: AddressFamily;
  /** Whether the interface is a loopback interface. */
  readonly internal: boolean;
}

/**
 * The address families in which this host can reach other hosts. A family counts if a network interface has an address of it that is
 * neither loopback nor link-local. Link-local addresses prove nothing: every host has an IPv6 one, and some pods with only IPv6 have an
 * IPv4 one (Amazon EKS, for traffic that leaves the cluster). The result is empty if only loopback is up.
 */
export function hostFamilies(addresses: readonly InterfaceAddress[] = listed()): ReadonlySet<AddressFamily> {
  const families = new Set<AddressFamily>();
  for (const { address, family, internal } of addresses) {
    if (!internal && !/^(169\.254\.|fe[89ab][0-9a-f]:)/i.test(address)) families.add(family);
  }
  return families;
}

/** The only address family that this host has; undefined if it has both or none. */
export function onlyHostFamily(families: ReadonlySet<AddressFamily> = hostFamilies()): AddressFamily | undefined {
  const [first] = families;
  return families.size === 1 ? first : undefined;
}

/**
 * The address families to query in DNS, in order. The second one is only queried for names that have no address of the first: DNS does
 * not say which addresses belong to the same pod, so the families are never mixed.
 *
 * @param family The only family to query, if the options name one.
 */
export function lookupFamilies(
  family?: 4 | 6,
  hostFamily: AddressFamily | undefined = onlyHostFamily(),
): readonly (4 | 6)[] {
  if (family !== undefined) return [family];
  return hostFamily === 'IPv6' ? [6, 4] : [4, 6];
}

function listed(): InterfaceAddress[] {
  try {
    return Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  } catch {
    // The system does not let this process see the network interfaces, so nothing is known about them.
    return [];
  }
}
