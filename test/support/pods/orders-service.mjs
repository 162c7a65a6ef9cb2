/** The service of Connect that `connect-pod.mjs` serves, described without a generator. Its messages are Protobuf's own `StringValue`. */
import { create, createFileRegistry } from '@bufbuild/protobuf';
import {
  FileDescriptorProtoSchema,
  file_google_protobuf_wrappers,
  MethodOptions_IdempotencyLevel,
} from '@bufbuild/protobuf/wkt';

const text = '.google.protobuf.StringValue';
/** @param {string} name @param {object} more */
const method = (name, more = {}) => ({ name, inputType: text, outputType: text, ...more });

const file = create(FileDescriptorProtoSchema, {
  name: 'shop/orders.proto',
  package: 'shop',
  syntax: 'proto3',
  dependency: ['google/protobuf/wrappers.proto'],
  service: [
    {
      name: 'Orders',
      method: [
        method('Say'),
        method('Get', { options: { idempotencyLevel: MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS } }),
        method('Count', { serverStreaming: true }),
        method('Collect', { clientStreaming: true }),
        method('Chat', { clientStreaming: true, serverStreaming: true }),
      ],
    },
  ],
});

const registry = createFileRegistry(file, (name) =>
  name === file_google_protobuf_wrappers.proto.name ? file_google_protobuf_wrappers.proto : undefined,
);

const service = registry.getService('shop.Orders');
if (service === undefined) throw new Error('no service shop.Orders');
export const Orders = service;
