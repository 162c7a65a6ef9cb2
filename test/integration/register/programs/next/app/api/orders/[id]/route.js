export const dynamic = 'force-dynamic';

export async function GET(_request, { params }) {
  const { id } = await params;
  const answer = await fetch(`${process.env.ORDERS}/orders/${id}`, { cache: 'no-store' });
  return Response.json(await answer.json());
}
