import { createBalancer, type Resolver, type Transport } from 'evenkeel';
import { endpointSlices } from 'evenkeel/kubernetes';

declare const transport: Transport<string>;

// Without @kubernetes/client-node: its types are not needed.
const byName: Resolver = endpointSlices({ namespace: 'shop', service: 'orders', port: 'http' });
createBalancer({ resolver: byName, transport });
endpointSlices({ namespace: 'shop', service: 'orders', port: 8080 });
// @ts-expect-error: of which Service?
endpointSlices({ namespace: 'shop', port: 'http' });
