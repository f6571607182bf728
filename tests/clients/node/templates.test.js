// Templates through the npm client `resend`. Started by ../run, which sets RESEND_BASE_URL and RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);
const alias = () => `order-${randomUUID()}`;
const order = (more) => ({
  name: 'Order',
  from: 'Shop <shop@acme.example>',
  subject: 'Order {{{ORDER_ID}}}',
  replyTo: 'help@acme.example',
  html: '<p>Hi {{{NAME|friend}}}, order {{{ORDER_ID}}}: {{{COUNT}}}.</p>',
  variables: [
    { key: 'ORDER_ID', type: 'string' },
    { key: 'COUNT', type: 'number', fallbackValue: 1 },
  ],
  ...more,
});

test('a template is created, read by id and alias, listed, changed and removed', async () => {
  const name = alias();
  const created = ok(await resend.templates.create(order({ alias: name })));
  assert.equal(created.object, 'template');
  assert.match(created.id, UUID);
  const { id } = created;
  const found = ok(await resend.templates.get(name));
  assert.deepEqual(found, ok(await resend.templates.get(id)));
  assert.equal(found.status, 'draft');
  assert.equal(found.published_at, null);
  assert.equal(found.has_unpublished_versions, true);
  assert.match(found.current_version_id, UUID);
  assert.match(found.created_at, TIME);
  assert.deepEqual(found.reply_to, ['help@acme.example']);
  const [one, two] = found.variables;
  assert.deepEqual([one.key, one.type, one.fallback_value], ['ORDER_ID', 'string', null]);
  assert.deepEqual([two.key, two.type, two.fallback_value], ['COUNT', 'number', 1]);
  assert.match(one.created_at, TIME);

  assert.equal(ok(await resend.templates.update(name, { name: 'Orders', text: 'Order {{{ORDER_ID}}}' })).id, id);
  const listed = ok(await resend.templates.list({ limit: 100 })).data.find((item) => item.id === id);
  assert.deepEqual([listed.name, listed.alias, listed.status], ['Orders', name, 'draft']);
  assert.deepEqual(ok(await resend.templates.remove(name)), { object: 'template', id, deleted: true });
  refused(await resend.templates.get(id), 404, 'not_found');
});

test('a template is published, at once or later, and duplicated', async () => {
  const { id } = ok(await resend.templates.create(order({})).publish());
  const published = ok(await resend.templates.get(id));
  assert.equal(published.status, 'published');
  assert.equal(published.has_unpublished_versions, false);
  assert.match(published.published_at, TIME);
  ok(await resend.templates.update(id, { html: '<p>New</p>' }));
  assert.equal(ok(await resend.templates.get(id)).has_unpublished_versions, true);
  assert.equal(ok(await resend.templates.publish(id)).id, id);
  const copy = ok(await resend.templates.duplicate(id));
  assert.notEqual(copy.id, id);
  assert.equal(ok(await resend.templates.get(copy.id)).html, '<p>New</p>');
  ok(await resend.templates.duplicate(id).publish());
});

test('mail is made of a template', async () => {
  const name = alias();
  ok(await resend.templates.create(order({ alias: name })).publish());
  const to = 'delivered@resend.dev';
  const { id } = ok(await resend.emails.send({ to, template: { id: name, variables: { ORDER_ID: '<1>', COUNT: 2 } } }));
  const email = ok(await resend.emails.get(id));
  assert.equal(email.subject, 'Order <1>');
  assert.equal(email.from, 'Shop <shop@acme.example>');
  assert.equal(email.html, '<p>Hi friend, order &lt;1&gt;: 2.</p>');
  const own = ok(
    await resend.emails.send({ to, from: 'me@acme.example', subject: 'Mine', template: { id: name, variables: { ORDER_ID: 'A' } } }),
  );
  assert.equal(ok(await resend.emails.get(own.id)).subject, 'Mine');
  const many = ok(await resend.batch.send([{ to, template: { id: name, variables: { ORDER_ID: 'B' } } }]));
  assert.match(many.data[0].id, UUID);
  refused(await resend.emails.send({ to, template: { id: name } }), 422, 'validation_error');
  refused(await resend.emails.send({ to, template: { id: alias() } }), 404, 'not_found');
});

test('a template that cannot be is refused', async () => {
  refused(await resend.templates.create({ name: 'x' }), 422, 'missing_required_field');
  refused(await resend.templates.create(order({ html: '{{{' })), 422, 'validation_error');
  refused(await resend.templates.create(order({ variables: [{ key: 'EMAIL', type: 'string' }] })), 422, 'validation_error');
});
