// Topics, and what contacts choose of them, through the npm client `resend`. Started by ../run,
// which sets RESEND_BASE_URL and RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);
const address = () => `ada+${randomUUID()}@example.com`;

async function topic(defaultSubscription, name = 'News') {
  const data = ok(await resend.topics.create({ name, defaultSubscription }));
  assert.match(data.id, UUID);
  return data.id;
}

// What holds for a contact of these topics; a workspace has others, too.
async function held(who, ids) {
  const list = ok(await resend.contacts.topics.list({ ...who, limit: 100 }));
  assert.equal(list.object, 'list');
  return ids.map((id) => list.data.find((item) => item.id === id)?.subscription);
}

test('a topic is created, read, listed, changed and removed', async () => {
  const created = ok(
    await resend.topics.create({ name: 'News', description: 'Monthly.', defaultSubscription: 'opt_in' }),
  );
  assert.equal(created.object, 'topic');
  const { id } = created;
  const found = ok(await resend.topics.get(id));
  assert.equal(found.object, 'topic');
  assert.equal(found.name, 'News');
  assert.equal(found.description, 'Monthly.');
  assert.equal(found.default_subscription, 'opt_in');
  assert.equal(found.visibility, 'private');
  assert.match(found.created_at, TIME);
  assert.equal(ok(await resend.topics.update({ id, name: 'Product news' })).id, id);
  const [newest] = ok(await resend.topics.list()).data;
  assert.equal(newest.id, id);
  assert.equal(newest.name, 'Product news');
  assert.equal(newest.description, 'Monthly.');
  assert.deepEqual(ok(await resend.topics.remove(id)), { object: 'topic', id, deleted: true });
  refused(await resend.topics.get(id), 404, 'not_found');
  refused(await resend.topics.update({ id, name: 'x' }), 404, 'not_found');
  refused(await resend.topics.remove(id), 404, 'not_found');
});

test('a topic without a default, or with a long name, is refused', async () => {
  refused(await resend.topics.create({ name: 'News' }), 422, 'missing_required_field');
  refused(await resend.topics.create({ name: 'x'.repeat(51), defaultSubscription: 'opt_in' }), 422, 'validation_error');
  refused(await resend.topics.create({ name: 'x', defaultSubscription: 'in' }), 422, 'validation_error');
});

test('a contact has the default until it chooses, by id and by address', async () => {
  const [one, two] = [await topic('opt_in'), await topic('opt_out')];
  const email = address();
  const { id } = ok(await resend.contacts.create({ email }));
  assert.deepEqual(await held({ id }, [one, two]), ['opt_in', 'opt_out']);
  const answer = ok(await resend.contacts.topics.update({ email, topics: [{ id: one, subscription: 'opt_out' }] }));
  assert.equal(answer.id, id);
  assert.deepEqual(await held({ email }, [one, two]), ['opt_out', 'opt_out']);
  ok(await resend.contacts.topics.update({ id, topics: [{ id: two, subscription: 'opt_in' }] }));
  assert.deepEqual(await held({ id }, [one, two]), ['opt_out', 'opt_in']);
  const page = ok(await resend.contacts.topics.list({ email, limit: 1 }));
  assert.equal(page.data.length, 1);
  assert.deepEqual(Object.keys(page.data[0]).sort(), ['created_at', 'id', 'name', 'subscription']);
  assert.equal(page.has_more, true);
});

test('of choices of which one is of no topic none is made', async () => {
  const one = await topic('opt_in');
  const { id } = ok(await resend.contacts.create({ email: address() }));
  const topics = [{ id: one, subscription: 'opt_out' }, { id: randomUUID(), subscription: 'opt_out' }];
  refused(await resend.contacts.topics.update({ id, topics }), 404, 'not_found');
  assert.deepEqual(await held({ id }, [one]), ['opt_in']);
  const email = address();
  refused(await resend.contacts.create({ email, topics }), 404, 'not_found');
  refused(await resend.contacts.get(email), 404, 'not_found');
  refused(await resend.contacts.topics.update({ email, topics: [] }), 404, 'not_found');
});

test('a new contact can have chosen already', async () => {
  const [one, two] = [await topic('opt_out'), await topic('opt_out')];
  const { id } = ok(
    await resend.contacts.create({ email: address(), topics: [{ id: one, subscription: 'opt_in' }] }),
  );
  assert.deepEqual(await held({ id }, [one, two]), ['opt_in', 'opt_out']);
});
