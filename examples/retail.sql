-- The retail warehouse of "Maintenance of Data Cubes and Summary Tables in a Warehouse" (1997), figure 1.

CREATE TABLE stores (
  storeID INT NOT NULL PRIMARY KEY,
  city    STRING NOT NULL,
  region  STRING
);

CREATE TABLE items (
  itemID   INT NOT NULL PRIMARY KEY,
  name     STRING,
  category STRING,
  cost     DECIMAL(10,2)
);

CREATE TABLE pos (
  storeID INT NOT NULL REFERENCES stores,
  itemID  INT NOT NULL REFERENCES items,
  date    DATE,
  qty     INT,
  price   DECIMAL(10,2)
);

CREATE DIMENSION stores_dim
  LEVEL store IS stores.storeID LEVEL city IS stores.city LEVEL region IS stores.region
  HIERARCHY geo (store CHILD OF city CHILD OF region);

CREATE VIEW SID_sales(storeID, itemID, date, TotalCount, TotalQuantity) AS
SELECT storeID, itemID, date, COUNT(*) AS TotalCount, SUM(qty) AS TotalQuantity
FROM pos
GROUP BY storeID, itemID, date;

CREATE VIEW sCD_sales(city, date, TotalCount, TotalQuantity) AS
SELECT city, date, COUNT(*) AS TotalCount, SUM(qty) AS TotalQuantity
FROM pos, stores
WHERE pos.storeID = stores.storeID
GROUP BY city, date;

CREATE VIEW SiC_sales(storeID, category, TotalCount, EarliestSale, TotalQuantity) AS
SELECT storeID, category, COUNT(*) AS TotalCount, MIN(date) AS EarliestSale, SUM(qty) AS TotalQuantity
FROM pos, items
WHERE pos.itemID = items.itemID
GROUP BY storeID, category;

CREATE VIEW sR_sales(region, TotalCount, TotalQuantity) AS
SELECT region, COUNT(*) AS TotalCount, SUM(qty) AS TotalQuantity
FROM pos, stores
WHERE pos.storeID = stores.storeID
GROUP BY region;
