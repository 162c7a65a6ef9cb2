// @ts-check
/** The same generated client with evenkeel's target and channel options: it knows the pods and picks one for every call. */
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { endpointSlices } from 'evenkeel/kubernetes';
import { podsSetAside } from './evenkeel.js';
import { askOver, serviceConfig } from './grpc.js';
import { chosen } from './pickers.js';

/** @type {import('./client.js').CreateClient} */
export const createClient = async ({ apiServerUrl, namespace, service, picker }) => {
  /** @type {import('evenkeel/grpc-js').ChannelBalancer | undefined} */
  let balancer;
  // In a cluster `serviceChannelOptions()` is enough: it finds the API server and its credentials by itself.
  const options = serviceChannelOptions({
    resolver: endpointSlices({
      namespace,
      service,
      port: 'grpc',
      apiServer: apiServerUrl,
      allowAddresses: ['loopback'],
    }),
    ...chosen(picker),
    'grpc.service_config': serviceConfig(),
    onBalancer: (made) => {
      balancer = made;
    },
  });
  const ask = askOver(serviceTarget(`${service}.${namespace}:50051`), options);
  await balancer?.ready();
  return { ask, setAside: () => (balancer === undefined ? [] : podsSetAside(balancer)) };
};
