// @ts-check
/** The service of the example. An application has this from its .proto file, by `protoc-gen-es`. */
import { create, createFileRegistry } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, file_google_protobuf_wrappers } from '@bufbuild/protobuf/wkt';

const text = '.google.protobuf.StringValue';
const file = create(FileDescriptorProtoSchema, {
  name: 'shop/orders.proto',
  package: 'shop',
  syntax: 'proto3',
  dependency: [file_google_protobuf_wrappers.proto.name],
  service: [
    {
      name: 'Orders',
      method: [
        { name: 'Get', inputType: text, outputType: text },
        { name: 'Watch', inputType: text, outputType: text, serverStreaming: true },
      ],
    },
  ],
});
const registry = createFileRegistry(file, () => file_google_protobuf_wrappers.proto);

/**
 * @typedef {typeof import('@bufbuild/protobuf/wkt').StringValueSchema} Text
 * @typedef {import('@bufbuild/protobuf/codegenv2').GenService<{
 *   get: { methodKind: 'unary', input: Text, output: Text },
 *   watch: { methodKind: 'server_streaming', input: Text, output: Text },
 * }>} OrdersService
 */

export const Orders = /** @type {OrdersService} */ (/** @type {unknown} */ (registry.getService('shop.Orders')));
