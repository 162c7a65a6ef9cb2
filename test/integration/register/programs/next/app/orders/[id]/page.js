export const dynamic = 'force-dynamic';

export default async function Order({ params }) {
  const { id } = await params;
  const order = await (await fetch(`${process.env.ORDERS}/orders/${id}`, { cache: 'no-store' })).json();
  return <p>{order.note}</p>;
}
